// args_shell.c - generates completion scripts for bash, zsh and fish from a program's option table.
//
// All three complete the same: commands as the first word, those of `ganrun data` as the second, a
// command's options where a word begins with a hyphen, the values of a choice after its option, and
// files everywhere else.
#include "args.h"

// Words of a choice with `between` instead of |.
static void put_choice(Text *out, const char *words, char between) {
    for (const char *p = words; *p; p++)
        text_char(out, *p == '|' ? between : *p);
}

// --- bash ----------------------------------------------------------------------------------------

static void bash_table(Text *out, const ArgTable *t) {
    text_fmt(out, "    '%s') words='", t->program);
    for (uint32_t c = 0; c < t->commands; c++)
        text_fmt(out, "%s%s", c ? " " : "", t->command[c].word);
    text_put(out, STR("' ;;\n"));
    for (uint32_t c = 0; c < t->commands; c++) {
        if (t->command[c].sub) {
            bash_table(out, t->command[c].sub);
            continue;
        }
        text_fmt(out, "    '%s %s') options='", t->program, t->command[c].word);
        for (uint32_t i = 0; i < t->options; i++)
            if (args_shown(t, i, c))
                text_fmt(out, "%s ", t->option[i].word);
        text_put(out, STR("--help' ;;\n"));
    }
}

static void bash_choices(Text *out, const ArgTable *t) {
    for (uint32_t c = 0; c < t->commands; c++) {
        if (t->command[c].sub)
            bash_choices(out, t->command[c].sub);
        for (uint32_t i = 0; i < t->options; i++) {
            if (!args_shown(t, i, c) || t->option[i].kind != ArgChoice)
                continue;
            text_fmt(out, "    '%s %s %s') words='", t->program, t->command[c].word,
                     t->option[i].word);
            put_choice(out, t->option[i].value, ' ');
            text_put(out, STR("' ;;\n"));
        }
    }
}

// The command's words until now, as `at`: "ganrun", "ganrun train", "ganrun data pack".
void args_bash(Text *out, const ArgTable *t) {
    const char *p = t->program;
    text_fmt(out,
             "# bash completion of %s: made from its table of options.\n"
             "_%s() {\n"
             "    local at=%s words= options= n=1 word=${COMP_WORDS[COMP_CWORD]}\n"
             "    while [ $n -lt $COMP_CWORD ]; do\n"
             "        case \"$at ${COMP_WORDS[n]}\" in\n",
             p, p, p);
    for (uint32_t c = 0; c < t->commands; c++) {
        const ArgTable *sub = t->command[c].sub;
        if (!sub) {
            text_fmt(out, "        '%s %s') at='%s %s'; break ;;\n", p, t->command[c].word, p,
                     t->command[c].word);
            continue;
        }
        text_fmt(out, "        '%s') at='%s' ;;\n", sub->program, sub->program);
        for (uint32_t s = 0; s < sub->commands; s++)
            text_fmt(out, "        '%s %s') at='%s %s'; break ;;\n", sub->program,
                     sub->command[s].word, sub->program, sub->command[s].word);
    }
    text_put(out, STR("        *) break ;;\n"
                      "        esac\n"
                      "        n=$((n + 1))\n"
                      "    done\n"
                      "    case $at in\n"));
    bash_table(out, t);
    text_put(out, STR("    esac\n"
                      "    case \"$at ${COMP_WORDS[COMP_CWORD - 1]}\" in\n"));
    bash_choices(out, t);
    text_fmt(out,
             "    esac\n"
             "    case $word in -*) words=$options ;; esac\n"
             "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
             "}\n"
             "complete -o default -F _%s %s\n",
             p, p);
}

// --- zsh -----------------------------------------------------------------------------------------

// Inside single quotes of _arguments and _describe, where brackets and colons mean something.
static void zsh_text(Text *out, Str s) {
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '[' || c == ']' || c == ':' || c == '\\')
            text_char(out, '\\');
        if (c == '\'')
            text_put(out, STR("'\\''"));
        else
            text_char(out, c);
    }
}

static void zsh_option(Text *out, const ArgTable *t, uint32_t command, const ArgOption *o) {
    text_fmt(out, " \\\n            '%s%s[", args_takes_pairs(o->kind) ? "*" : "", o->word);
    zsh_text(out, args_clause(out->arena, t, command, o->help));
    text_char(out, ']');
    if (args_takes_value(o->kind)) {
        text_char(out, ':');
        zsh_text(out, str_c(o->kind == ArgChoice ? "word" : o->value));
        text_char(out, ':');
        if (o->kind == ArgChoice) {
            text_char(out, '(');
            put_choice(out, o->value, ' ');
            text_char(out, ')');
        } else if (o->kind == ArgText || args_takes_pairs(o->kind)) {
            text_put(out, STR("_files"));
        }
    }
    text_char(out, '\'');
}

// A function for a table: its commands, then those with tables of their own.
static void zsh_table(Text *out, const ArgTable *t, const char *name) {
    text_fmt(out, "%s() {\n    local -a commands=(", name);
    for (uint32_t c = 0; c < t->commands; c++) {
        text_fmt(out, "\n        '%s:", t->command[c].word);
        zsh_text(out, str_c(t->command[c].help));
        text_char(out, '\'');
    }
    text_put(out, STR(")\n    if (( CURRENT == 2 )); then _describe command commands; return; fi\n"
                      "    shift words; (( CURRENT-- ))\n    case $words[1] in\n"));
    for (uint32_t c = 0; c < t->commands; c++) {
        const char *word = t->command[c].word;
        if (t->command[c].sub) {
            text_fmt(out, "    %s) %s_%s ;;\n", word, name, word);
            continue;
        }
        text_fmt(out, "    %s) _arguments", word);
        for (uint32_t i = 0; i < t->options; i++)
            if (args_shown(t, i, c))
                zsh_option(out, t, c, &t->option[i]);
        text_put(out, STR(" \\\n            '--help[usage, options, an example]' '*:file:_files' "
                          ";;\n"));
    }
    text_put(out, STR("    esac\n}\n"));
    for (uint32_t c = 0; c < t->commands; c++)
        if (t->command[c].sub)
            zsh_table(out, t->command[c].sub,
                      str_format(out->arena, "%s_%s", name, t->command[c].word).ptr);
}

// Found in fpath it is the function itself; read by `source` it says what it is for.
void args_zsh(Text *out, const ArgTable *t) {
    const char *p = t->program;
    text_fmt(out, "#compdef %s\n# Made from the program's table of options.\n", p);
    zsh_table(out, t, str_format(out->arena, "_%s", p).ptr);
    text_fmt(out, "if [ \"$funcstack[1]\" = _%s ]; then _%s \"$@\"; else compdef _%s %s; fi\n", p,
             p, p, p);
}

// --- fish ----------------------------------------------------------------------------------------

static void fish_text(Text *out, Str s) {
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == '\'' || s.ptr[i] == '\\')
            text_char(out, '\\');
        text_char(out, s.ptr[i]);
    }
}

static void fish_option(Text *out, const ArgTable *t, const char *program, const char *at,
                        uint32_t command, const ArgOption *o) {
    bool brief = o->word[1] != '-';
    text_fmt(out, "complete -c %s -n '_%s_at \"%s\"' -%c %s", program, program, at,
             brief ? 's' : 'l', o->word + (brief ? 1 : 2));
    if (o->kind == ArgChoice) {
        text_put(out, STR(" -x -a '"));
        put_choice(out, o->value, ' ');
        text_char(out, '\'');
    } else if (args_takes_value(o->kind)) {
        text_put(out, o->kind == ArgText || args_takes_pairs(o->kind) ? STR(" -r") : STR(" -x"));
    }
    text_put(out, STR(" -d '"));
    fish_text(out, args_clause(out->arena, t, command, o->help));
    text_put(out, STR("'\n"));
}

// `at`: the words before this table's commands, a blank behind each.
static void fish_table(Text *out, const ArgTable *t, const char *program, const char *at) {
    for (uint32_t c = 0; c < t->commands; c++) {
        const ArgCommand *row = &t->command[c];
        text_fmt(out, "complete -c %s -f -n '_%s_is \"%s\"' -a %s -d '", program, program, at,
                 row->word);
        fish_text(out, str_c(row->help));
        text_put(out, STR("'\n"));
        const char *behind = str_format(out->arena, "%s%s ", at, row->word).ptr;
        if (row->sub)
            fish_table(out, row->sub, program, behind);
        for (uint32_t i = 0; !row->sub && i < t->options; i++)
            if (args_shown(t, i, c))
                fish_option(out, t, program, behind, c, &t->option[i]);
    }
}

void args_fish(Text *out, const ArgTable *t) {
    const char *p = t->program;
    text_fmt(out,
             "# fish completion of %s: made from its table of options.\n"
             "function _%s_before\n"
             "    set -l words (commandline -opc)\n"
             "    set -e words[1]\n"
             "    string join '' -- $words' ' ''\n"
             "end\n"
             "function _%s_is\n"
             "    set -l at (_%s_before)\n"
             "    test \"$at\" = \"$argv[1]\"\n"
             "end\n"
             "function _%s_at\n"
             "    set -l at (_%s_before)\n"
             "    string match -q -- \"$argv[1]*\" \"$at\"\n"
             "end\n",
             p, p, p, p, p, p);
    fish_table(out, t, p, "");
}

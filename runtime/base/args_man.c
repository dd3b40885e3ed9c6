// args_man.c - a program's manual page, from its table. Roff as of man(7).
#include "args.h"

// Text as it is: backslashes and hyphens mean something to roff, and so does a line's first dot.
static void put(Text *out, Str s) {
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool first = !out->n || out->at[out->n - 1] == '\n';
        if (first && (c == '.' || c == '\''))
            text_put(out, STR("\\&"));
        if (c == '\\')
            text_put(out, STR("\\e"));
        else if (c == '-')
            text_put(out, STR("\\-"));
        else
            text_char(out, c);
    }
}

static void put_command(Text *out, const ArgTable *t, uint32_t command) {
    const ArgCommand *c = &t->command[command];
    text_put(out, STR(".SS "));
    put(out, str_format(out->arena, "%s %s %s", t->program, c->word, c->files));
    text_char(out, '\n');
    put(out, str_c(c->help));
    text_put(out, STR("\n.PP\nExample:\n.B "));
    put(out, str_format(out->arena, "%s %s", t->program, c->example));
    text_char(out, '\n');
    for (uint32_t i = 0; i < t->options; i++) {
        const ArgOption *o = &t->option[i];
        if (!args_shown(t, i, command))
            continue;
        text_put(out, STR(".TP\n.BR "));
        put(out, str_c(o->word));
        text_put(out, STR(" \" "));
        put(out, str_c(o->value));
        text_put(out, STR("\"\n"));
        put(out, args_clause(out->arena, t, command, o->help));
        text_char(out, '\n');
    }
}

static void put_commands(Text *out, const ArgTable *t) {
    for (uint32_t i = 0; i < t->commands; i++)
        if (t->command[i].sub)
            put_commands(out, t->command[i].sub);
        else
            put_command(out, t, i);
}

void args_man(Text *out, const ArgTable *t) {
    text_fmt(out, ".TH %s 1 \"\" \"gan %s\"\n.SH NAME\n%s \\- ", t->program, GAN_VERSION,
             t->program);
    put(out, str_c(t->about));
    text_fmt(out, "\n.SH SYNOPSIS\n.B %s\n.I \"COMMAND ...\"\n.SH COMMANDS\n", t->program);
    put_commands(out, t);
    text_put(out, STR(".SH EXIT STATUS\n0 done; 1 the model, data or reference is wrong; 2 usage; "
                      "3 the machine lacks or refused something; 70 a bug; 75 saved and stopped, "
                      "run it again.\n"));
}

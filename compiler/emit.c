// emit.c - `ganc emit`: prints any stage of a model, from the model or from the text of an earlier
// stage.
#include "cli.h"

#include <stdio.h>

static bool plan_level(Str stage, PlanLevel *out) {
    static const char *const names[] = {"fused", "schedule", "plan"};
    for (*out = PlanFused; *out <= PlanPlaced; ++*out)
        if (str_eq(stage, str_c(names[*out])))
            return true;
    return false;
}

// The dialect a stage is the kernels of; the machine's own for all others.
static const Dialect *dialect_of(const Cli *c) {
    const Dialect *named = dialect_find(c->stage);
    return named ? named : &dialect_c;
}

// Stages of a compiled model.
static int emit_compiled(Cli *c, const Compiled *done) {
    Text t = {.arena = c->perm};
    PlanLevel level;
    if (plan_level(c->stage, &level))
        compiled_print(&t, done, level);
    else if (dialect_find(c->stage))
        gen_print(&t, &done->step, dialect_find(c->stage));
    else if (str_eq(c->stage, STR("dot")))
        plan_dot(&t, &done->step);
    else
        return cli_usage("the text is of a later stage than %.*s", SARG(c->stage));
    return cli_write(c, text_str(&t));
}

// Stages behind elaboration, from a module that came from a model or from its own text form.
static int emit_module(Cli *c, Module *m) {
    Text t = {.arena = c->perm};
    if (str_eq(c->stage, STR("graph"))) {
        module_print(&t, m);
        return cli_write(c, text_str(&t));
    }
    if (str_eq(c->stage, STR("grad")) && str_eq(c->from_stage, STR("grad"))) {
        module_print(&t, m); // it has been through these passes
        return cli_write(c, text_str(&t));
    }
    if (str_eq(c->stage, STR("grad"))) {
        PassOptions p = {.real = c->real};
        CompileOptions o = cli_options(c, (Str){0});
        compile_scales(c->perm, m, &o);
        passes_run(c->perm, m, &m->step, &p, "grad");
        module_print(&t, m);
        return cli_write(c, text_str(&t));
    }
    CompileOptions o = cli_options(c, (Str){0});
    o.dialect = dialect_of(c);
    Compiled done = {.module = *m};
    GanStatus status = compile_plans(c->perm, &done.module, &o, &done);
    if (status != GAN_OK)
        return cli_die(status);
    return emit_compiled(c, &done);
}

// Goes on from the text form of an earlier stage.
static int emit_from_text(Cli *c) {
    Str text, error;
    PlanLevel level;
    GanStatus status = file_exists(c->file.at[0])
                           ? file_read(c->perm, c->file.at[0], &text)
                           : fail(GAN_ERR_INPUT, "there is no file %.*s", SARG(c->file.at[0]));
    if (status != GAN_OK)
        return cli_die(status);
    Module m = {0};
    Compiled done;
    bool planned = plan_level(c->from_stage, &level);
    bool fine = planned ? compiled_read(c->perm, text, dialect_of(c), &done, &error)
                        : module_read(c->perm, text, &m, &error);
    if (!fine && !str_starts(text, STR("module ")))
        error = STR("not what `ganc emit MODEL --stage S` prints, which begins with `module`");
    if (!fine) {
        fprintf(stderr, "ganc: %.*s: %.*s\n", SARG(c->file.at[0]), SARG(error));
        return 1;
    }
    return planned ? emit_compiled(c, &done) : emit_module(c, &m);
}

int cmd_emit(Cli *c) {
    if (!c->stage.len)
        return cli_usage("emit needs --stage S: `ganc emit --help` lists them");
    if (c->from_stage.len)
        return emit_from_text(c);
    Front f;
    front_init(&f, c->perm);
    Module m = {0};
    Text t = {.arena = c->perm};
    CompileOptions o = cli_options(c, c->file.at[0]);
    bool tokens = str_eq(c->stage, STR("tokens"));
    if (tokens || str_eq(c->stage, STR("ast"))) {
        Ast *ast = NULL;
        GanStatus status = compile_parse(&f, &o, &ast);
        if (status != GAN_OK)
            return cli_failed(&f, c, status);
        if (tokens)
            tokens_print(&t, &f, 1);
        else
            ast_print(&t, ast);
        return cli_write(c, text_str(&t));
    }
    GanStatus status = compile_module(&f, &o, &m);
    return status == GAN_OK ? emit_module(c, &m) : cli_failed(&f, c, status);
}

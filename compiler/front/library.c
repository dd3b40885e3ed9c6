// library.c - the library's files, embedded in the program: parsed once per Front, always in scope.
#include "front.h"

#include "embed.h"

extern const EmbeddedFile gan_stdlib[];

bool front_load_library(Front *f) {
    if (f->library.n)
        return true;
    uint32_t before = diag_errors(f); // in the model's text
    for (const EmbeddedFile *file = gan_stdlib; file->name; file++) {
        Str name = str_format(f->perm, "std/%s", file->name);
        uint32_t source = front_add_source(f, name, (Str){file->text, file->len}, true);
        Ast *a = source ? parse_gan(f, source) : NULL;
        if (!a || diag_errors(f) > before)
            return false;
        vec_push(f->perm, &f->library, a);
    }
    return true;
}

void front_share_library(Front *f, const Front *from) {
    for (uint32_t i = 0; i < from->source.n; i++)
        vec_push(f->perm, &f->source, from->source.at[i]);
    for (uint32_t i = 0; i < from->library.n; i++)
        vec_push(f->perm, &f->library, from->library.at[i]);
}

// dce.c - nodes that nothing needs go away: what a rebuild does anyway. Needs and keeps everything
// else.
#include "pass.h"

void pass_dce(Arena *perm, Module *m, Func *f, const PassOptions *o) {
    (void)m, (void)o;
    func_rewrite(perm, f, f->g.batch, node_copy, NULL);
}

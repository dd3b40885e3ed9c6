// link_plugin.c - a link that lives in a shared object: found, checked, kept for the process's
// life.
#include "comm_link.h"

#include <dlfcn.h>

GanStatus link_plugin_load(Str path, const LinkPlugin **out) {
    char name[4096];
    if (snprintf(name, sizeof name, "%.*s", SARG(path)) >= (int)sizeof name)
        return fail(GAN_ERR_DEVICE, "the path of %.*s is longer than %zu bytes",
                    SARG(path_base(path)), sizeof name - 1);
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return fail(GAN_ERR_DEVICE, "%s", dlerror());
    const LinkPlugin *p = dlsym(library, LINK_PLUGIN_SYMBOL);
    if (!p || p->version != LINK_PLUGIN_VERSION) {
        dlclose(library);
        return fail(GAN_ERR_DEVICE, "%s belongs to another version of this program", name);
    }
    *out = p;
    return GAN_OK;
}

// dir.c - folders: creating, listing, walking.
//
// Lists are sorted bytewise, so that they do not depend on the file system.
#define _GNU_SOURCE
#include "io.h"
#include "bytes.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

GanStatus dir_make(Str path) {
    IoPath p;
    if (!io_path(path, &p))
        return io_fail("create folder", path);
    for (size_t i = 1; i <= path.len; i++) {
        if (i < path.len && p.z[i] != '/')
            continue;
        p.z[i] = 0;
        // Only what is missing is made: a parent that is there may refuse mkdir for another reason
        // than EEXIST.
        if (!file_is_dir(str_c(p.z)) && (io_refused() || mkdir(p.z, 0777) != 0) && errno != EEXIST)
            return io_fail("create folder", str_c(p.z));
        if (i < path.len)
            p.z[i] = '/';
    }
    if (file_is_dir(path))
        return GAN_OK;
    errno = ENOTDIR;
    return io_fail("create folder", path);
}

GanStatus dir_make_new(Str path, bool *created) {
    IoPath p;
    *created = io_path(path, &p) && !io_refused() && mkdir(p.z, 0777) == 0;
    return *created || errno == EEXIST ? GAN_OK : io_fail("create folder", path);
}

// All names in one block, each followed by a 0 byte.
static GanStatus read_names(Str path, Bytes *names) {
    IoPath p;
    DIR *dir = io_path(path, &p) && !io_read_refused() ? opendir(p.z) : NULL;
    if (!dir)
        return io_fail("list", path);
    GanStatus st = GAN_OK;
    for (;;) {
        errno = 0;
        const struct dirent *entry = io_read_refused() ? NULL : readdir(dir);
        if (!entry) {
            if (errno)
                st = io_fail("list", path);
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (!bytes_put(names, entry->d_name, strlen(entry->d_name) + 1)) {
            st = io_fail_memory("list", path);
            break;
        }
    }
    closedir(dir);
    return st;
}

GanStatus dir_list(Arena *a, Str path, StrVec *out) {
    *out = (StrVec){0};
    Bytes names = {0};
    GanStatus st = read_names(path, &names);
    if (st != GAN_OK) {
        mem_free(names.at);
        return st;
    }
    Str all;
    TRY(bytes_move(&names, a, &all));
    for (Str name; all.len; all = str_sub(all, name.len + 1, all.len)) {
        name = str_c(all.ptr);
        vec_push(a, out, name);
    }
    if (out->n)
        qsort(out->at, out->n, sizeof *out->at, by_str);
    return GAN_OK;
}

typedef struct Folder {
    Str path;        // below the first, whose own is ""
    uint32_t parent; // its place in the list
    dev_t device;
    ino_t inode;
} Folder;
typedef VEC(Folder) FolderVec;

// Is this folder one of those on the way to number i?
static bool is_above(const FolderVec *folders, uint32_t i, const struct stat *info) {
    for (;; i = folders->at[i].parent) {
        if (folders->at[i].device == info->st_dev && folders->at[i].inode == info->st_ino)
            return true;
        if (i == 0)
            return false;
    }
}

static void add(Arena *a, WalkVec *out, Str path, GanStatus st) {
    vec_push(a, out, ((WalkFile){path, st == GAN_OK ? (Str){0} : str_copy(a, str_c(gan_error()))}));
}

// What a name leads to. False: a link to a folder that is not to be entered, or nothing; what
// vanishes while we walk is passed over.
static bool look_at(const char *full, bool links, struct stat *info, GanStatus *st) {
    bool known = !io_read_refused() && lstat(full, info) == 0,
         link = known && S_ISLNK(info->st_mode);
    if (link)
        known = stat(full, info) == 0;
    bool nothing = !known && (errno == ENOENT || errno == ELOOP);
    if (nothing && !link)
        return false;
    *st = known     ? GAN_OK
          : nothing ? fail(GAN_ERR_IO, "a link that leads nowhere")
                    : io_fail("look at", str_c(full));
    return !known || !link || links || !S_ISDIR(info->st_mode);
}

GanStatus dir_walk(Arena *a, Str path, bool links, WalkVec *out) {
    *out = (WalkVec){0};
    FolderVec folders = {0};
    StrVec names;
    struct stat info;
    Arena scratch = *a;
    if (io_read_refused() || stat(str_z(&scratch, path), &info) != 0)
        return io_fail("list", path);
    vec_push(a, &folders, ((Folder){.device = info.st_dev, .inode = info.st_ino}));
    for (uint32_t i = 0; i < folders.n; i++) {
        Str folder = folders.at[i].path;
        GanStatus st = dir_list(a, path_join(a, path, folder), &names);
        if (st == GAN_ERR_IO && i > 0)
            add(a, out, folder, st);
        else
            TRY(st);
        for (uint32_t k = 0; k < names.n; k++) {
            Str name = path_join(a, folder, names.at[k]);
            scratch = *a;
            const char *full = str_z(&scratch, path_join(&scratch, path, name));
            if (!look_at(full, links, &info, &st))
                continue;
            if (st != GAN_OK || S_ISREG(info.st_mode))
                add(a, out, name, st);
            else if (S_ISDIR(info.st_mode) && !is_above(&folders, i, &info))
                vec_push(a, &folders, ((Folder){name, i, info.st_dev, info.st_ino}));
        }
    }
    if (out->n)
        qsort(out->at, out->n, sizeof *out->at, by_str); // which a WalkFile begins with
    return GAN_OK;
}

// text.h - the words of the text form, shared by print.c and read.c. The form, line by line:
//
//   module "name" doc "..." batch 64
//   source "name.gan"                                        file 1, 2, ... of the spans
//   net "G" params 10 states 8 span=1:120-260
//   stream
//     field "x" image [3, 64, 64] classes 0 span=1:40-60
//       xform scale -1 1
//   site normal f32 [B, 100] func 1 block 0 span=1:300-310
//   slot param "G.conv.w" f32 [64, 3, 4, 4] net 0 site 0 stream 0 round 0 span=1:130-150
//                                                            "net -": of no net
//   func "step"                                              the first two are init and step, the
//                                                            rest entry points; "batch 16" where
//                                                            its blocks work on fewer samples
//     block 0 | repeat 5 | every 16 | if %12 | else | end    the tape; then "block 3 from 32" is of
//                                                            the samples from there on
//     %12 = conv %3, %5 {n=2 stride=2 2 ... groups=1} : f32 [B, 64, 32, 32] @0 span=1:200-240
//                                                            "[B, 8, 64', 64]": Type.inner
//     effect %40
//     update block 0 loss %30 rate 0.0002 nets 0 grads 3:%31 4:%32 inner %18 span=1:400-460
//     report "loss" %30 block 0
//     result "fakes" %20 block 0
//     data 3 4
//
// Indentation and blank lines mean nothing. Text in quotes escapes ", \ and control bytes as \xHH.
#ifndef GAN_TEXT_H
#define GAN_TEXT_H

#include "program.h"

// In the order of SlotKind, FieldKind, XformKind, Dist, CtlKind.
static const char *const slot_kind_text[] = {"param",  "state", "opt",   "data",
                                             "scalar", "fed",   "carry", "scale"};
static const char *const field_kind_text[] = {"image", "float", "label"};
static const char *const xform_text[] = {"resize",   "crop",   "flip",    "scale", "map",
                                         "balanced", "weight", "missing", "known"};
static const char *const dist_text[] = {"uniform", "normal", "truncated", "categorical"};
static const char *const ctl_text[] = {"block", "repeat", "every", "if", "else", "end"};
static_assert(sizeof slot_kind_text / sizeof *slot_kind_text == SlotScale + 1, "one word a kind");
static_assert(sizeof field_kind_text / sizeof *field_kind_text == FieldLabel + 1,
              "one word a kind");
static_assert(sizeof xform_text / sizeof *xform_text == XformKnown + 1, "one word a kind");
static_assert(sizeof dist_text / sizeof *dist_text == DistCategorical + 1, "one word a kind");
static_assert(sizeof ctl_text / sizeof *ctl_text == CtlEnd + 1, "one word a kind");

// Walks the attribute names of an op ("n stride* groups") with the integers they hold: one name at
// a time.
typedef struct AttrWalk {
    Str rest;       // names to come
    int64_t last;   // the plain attribute before: how many a "name*" has
    Str name;       // the current one, without the star
    uint32_t count; // its integers
    bool list;
} AttrWalk;

// The next name, or false. The caller sets `last` to the value of each plain attribute.
static inline bool attr_next(AttrWalk *w) {
    while (w->rest.len && w->rest.ptr[0] == ' ')
        w->rest = str_sub(w->rest, 1, w->rest.len);
    if (w->rest.len == 0)
        return false;
    size_t end = str_find(w->rest, ' ');
    w->name = str_sub(w->rest, 0, end);
    w->rest = str_sub(w->rest, end, w->rest.len);
    w->list = str_ends(w->name, STR("*"));
    w->count = !w->list ? 1 : w->last < 0 ? 0 : w->last > MAX_INTS ? MAX_INTS : (uint32_t)w->last;
    w->name.len -= w->list;
    return true;
}

static inline bool attr_is_double(Str name) { // an integer that holds the bits of a double
    return str_eq(name, STR("bits"));
}

#endif

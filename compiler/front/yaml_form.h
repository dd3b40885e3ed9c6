// yaml_form.h - what the readers of a YAML model share: yaml_text.c, yaml_net.c, yaml_step.c, and
// yaml.c with the top level. Each converts a YAML subtree to the syntax tree of its .gan twin; a
// mistake adds a diagnostic and leaves a hole.
#ifndef GAN_YAML_FORM_H
#define GAN_YAML_FORM_H

#include "syntax.h"
#include "yaml_tree.h"

typedef struct YamlReader {
    Front *f;
    Ast *file;     // what the sections of the top level are added to
    uint32_t held; // errors in entries that a Hole stands for
} YamlReader;

typedef struct YamlEntry {
    uint32_t errors, adopted; // before it
} YamlEntry;

// --- yaml_text.c ---------------------------------------------------------------------------------

void yaml_wrong(YamlReader *r, const Yaml *y, const char *expected); // "expected ..., found a list"
bool yaml_expect(YamlReader *r, const Yaml *y, YamlKind kind, const char *expected);
void yaml_unknown(YamlReader *r, const Yaml *key, const char *where, const Str *known, uint32_t n);
Yaml *yaml_find(const Yaml *map, const char *key); // NULL: it is not there
// Every key of the mapping is one of `known`, or a diagnostic.
bool yaml_only(YamlReader *r, const Yaml *map, const char *where, const Str *known, uint32_t n);
#define YAML_ONLY(r, map, where, known)                                                            \
    yaml_only(r, map, where, known, (uint32_t)(sizeof(known) / sizeof *(known)))

Ast *yaml_node(YamlReader *r, AstKind kind, Span span);
void yaml_adopt(YamlReader *r, Ast *parent, Ast *child); // NULL: nothing
// An entry of a mapping or list, from yaml_entry on, adds to `into`. Where it has a mistake, a Hole
// with the names that the keys of `y` define stands there instead, and the rest is read as usual.
YamlEntry yaml_entry(const YamlReader *r, const Ast *into);
void yaml_settle(YamlReader *r, YamlEntry entry, Ast *into, const Yaml *y);
Parser yaml_open(YamlReader *r, const Yaml *y); // at the text's first token
void yaml_close(Parser *p);                     // ... it ends here, or a diagnostic
Ast *yaml_expression(YamlReader *r, const Yaml *y);
Ast *yaml_text(YamlReader *r, const Yaml *y); // AstStr; NULL after a diagnostic
Ast *yaml_statements(YamlReader *r, const Yaml *y);
// read_names, read_targets or read_nets, of a text or of a list.
void yaml_names(YamlReader *r, const Yaml *y, void (*read)(Parser *, Ast *), Ast *into);
Str yaml_name(YamlReader *r, const Yaml *y);

// --- yaml_net.c, yaml_step.c ---------------------------------------------------------------------

// A function, net or sample: `where` names it in messages; NULL after a diagnostic.
Ast *yaml_function(YamlReader *r, const YamlPair *pair, AstKind kind, const char *where);
Ast *yaml_block(YamlReader *r, const Yaml *y); // a list of statements, or one text of them
void yaml_binds(YamlReader *r, const Yaml *y, Ast *into); // a mapping, as name: value
enum { YAML_NET_KEYS = 4 };
Str yaml_net_key(uint32_t i); // empty past the last
Str yaml_step_key(uint32_t i);

#endif

// yaml_tree.h - a YAML document as a tree, between yaml_read.c (libyaml's events) and yaml.c (the
// meaning of keys). Scalars are uninterpreted text: YAML's implicit types do not apply.
#ifndef GAN_YAML_TREE_H
#define GAN_YAML_TREE_H

#include "front.h"

typedef enum YamlKind { YamlText, YamlMap, YamlList } YamlKind;

typedef struct Yaml Yaml;
typedef struct YamlPair {
    Yaml *key, *value;
} YamlPair;
struct Yaml {
    YamlKind kind;
    Span span;          // in the file, quotes and brackets included
    Str text;           // Text: after YAML's unquoting and folding
    Span source;        // Text: where it stands letter for letter, perhaps a source of its own
    bool literal;       // Text: a `|` block, lines as they are
    bool quoted;        // Text
    bool flow;          // Map, List: { } or [ ]
    VEC(YamlPair) pair; // Map, in the order of the text, keys are texts and differ
    VEC(Yaml *) item;   // List
};

// The document of a source, or NULL after a diagnostic.
Yaml *yaml_read(Front *f, uint32_t source);

#endif

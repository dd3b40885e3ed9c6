// facts.c - for editors: the values and shapes of names where they stand, and the words that no
// text binds.
//
// In: elaboration, which evaluates a name once or many times (loops, calls). Out: the first few
// different values of each. Nothing is recorded unless facts_want was called.
#include "builtin.h"

enum { MAX_WORTHS = 3, MAX_VISITS = 64, MAX_WORTH = 160 };

typedef struct Fact {
    Str worth[MAX_WORTHS];
    uint32_t n, visits;
    bool more; // worths than there is room for
} Fact;
struct Facts {
    VEC(Fact) at;
    Map find; // file and first byte to index + 1
};

static uint64_t place_of(Span s) {
    return (uint64_t)s.file << 32 | s.lo;
}

void facts_want(Front *f) {
    f->facts = arena_new(f->perm, struct Facts);
}

static Fact *fact_at(Front *f, Span span) {
    uint32_t i = map_find(&f->facts->find, place_of(span));
    if (!i) {
        (void)vec_add(f->perm, &f->facts->at);
        i = f->facts->at.n;
        map_put(f->perm, &f->facts->find, place_of(span), i);
    }
    return &f->facts->at.at[i - 1];
}

static void fact_note(Front *f, Span span, Str worth) {
    Fact *fact = fact_at(f, span);
    for (uint32_t i = 0; i < fact->n; i++)
        if (str_eq(fact->worth[i], worth))
            return;
    if (fact->n < MAX_WORTHS)
        fact->worth[fact->n++] = worth;
    else
        fact->more = true;
}

Str fact_find(const Front *f, Span span) {
    uint32_t i = f->facts ? map_find(&f->facts->find, place_of(span)) : 0;
    if (!i)
        return (Str){0};
    const Fact *fact = &f->facts->at.at[i - 1];
    Text t = {.arena = f->perm};
    for (uint32_t k = 0; k < fact->n; k++)
        text_fmt(&t, "%s%.*s", k ? " or " : "", SARG(fact->worth[k]));
    if (fact->more)
        text_put(&t, STR(" or others"));
    return text_str(&t);
}

static Str worth_of(Elab *e, Value v) {
    Type t;
    if (place_type(e, v, &t))
        return type_text(e->perm, &t);
    Str worth = value_text(e, v);
    return worth.len <= MAX_WORTH
               ? worth
               : str_format(e->perm, "%.*s ...", SARG(str_sub(worth, 0, MAX_WORTH)));
}

void note_worth(Elab *e, Span at, Value v) {
    if (!e->f->facts || !at.file || v.kind == KindPoison || e->f->source.at[at.file - 1].library)
        return;
    if (v.kind == KindField && v.id >= e->field.n)
        return; // still being declared
    if (fact_at(e->f, at)->visits++ < MAX_VISITS)
        fact_note(e->f, at, worth_of(e, v));
}

// --- words ---------------------------------------------------------------------------------------

static const WordInfo words[] = {
#define WORD(Kind, text, breaks) {.name = STR_INIT(text), .kind = WordReserved},
#define ITEM(Kind, text) {.name = STR_INIT(text), .kind = WordItem},
#include "tokens.def"
};
enum { WORDS = sizeof words / sizeof *words };

bool word_info(uint32_t i, WordInfo *out) {
    uint32_t values = 0;
    if (i < WORDS) {
        *out = words[i];
        return true;
    }
    i -= WORDS;
    if (i < builtin_count()) {
        const Builtin *b = builtin_get(i);
        *out = (WordInfo){b->name, WordFunction, b->params, b->doc};
        return true;
    }
    i -= builtin_count();
    while (predefined_word(values))
        values++;
    const char *word = i < values ? predefined_word(i) : data_word(i - values);
    *out = (WordInfo){.name = str_c(word), .kind = i < values ? WordValue : WordData};
    return word != NULL;
}

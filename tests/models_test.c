// models_test.c - the shipped models: each has a YAML twin with the same graph; some train twenty
// steps to recorded losses, with gradients checked by finite differences; every model in
// docs/cookbook.md and docs/pytorch.md compiles, and so does every change of the cookbook's
// baseline; README.md shows dcgan.gan exactly.
#include "trial.h"

#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include "arena_cases.h"

#define MODELS ROOT_DIR "/models"

// --- twins ---------------------------------------------------------------------------------------

static void check_twin(Arena a, Str gan, const char *set) {
    Str yaml = str_format(&a, "%.*s.yaml", SARG(str_sub(gan, 0, gan.len - 4)));
    Str name[2] = {gan, yaml}, hash[2];
    for (int i = 0; i < 2; i++) {
        TrialOptions o = {.name = str_z(&a, name[i]), .batch = 4, .set = set};
        o.text = trial_read(&a, MODELS, name[i]);
        hash[i] = hash_hex(&a, module_hash(trial_module(&a, &o), a));
    }
    if (!str_eq(hash[0], hash[1]))
        fail_msg("%s and its twin give other graphs with %s", str_z(&a, gan),
                 set ? set : "the defaults");
}

// The YAML twin of a model, for the defaults and for each alternative of each config.
static void check_twins(Arena a, Str gan) {
    Front f;
    front_init(&f, &a);
    uint32_t source = front_add_source(&f, gan, trial_read(&a, MODELS, gan), false);
    const Ast *file = parse_gan(&f, source);
    assert_non_null(file);
    check_twin(a, gan, NULL);
    for (uint32_t i = 0; i < file->list.n; i++) {
        const Ast *c = file->list.at[i];
        for (uint32_t k = 1; c->kind == AstConfig && k < c->list.n; k++)
            check_twin(a, gan,
                       str_format(&a, "%.*s=%.*s", SARG(c->text), SARG(c->list.at[k]->text)).ptr);
    }
}

static void every_model_has_a_twin_with_the_same_graph(void **state) {
    Arena a = empty;
    StrVec names = {0};
    uint32_t n = 0;
    (void)state;
    assert_int_equal(dir_list(&a, STR(MODELS), &names), GAN_OK);
    for (uint32_t i = 0; i < names.n; i++) {
        if (!str_ends(names.at[i], STR(".gan")))
            continue;
        check_twins(a, names.at[i]);
        n++;
    }
    assert_int_equal(names.n, 2 * n);
}

// --- training ------------------------------------------------------------------------------------

static const struct {
    const char *model, *set;
    double loss[2][2]; // of each update, in the first and in the twentieth step
    double gradient;   // allowed error of the first update's gradient
} runs[] = {
    {"pix2pix.gan",
     "size=32 wide=2",
     {{0.699197836246461, 50.7171080494654}, {0.693098179498531, 50.592156406351}},
     1e-7},
    {"began.gan",
     "size=16 wide=3 nz=5 speed=0.1",
     {{0.495791099831862, 0.0176605265781136}, {0.481821265217218, 0.0145167662546166}},
     1e-7},
    {"acgan.gan",
     "nz=6 wide=2 kinds=3",
     {{3.65760355461442, 1.64993965750742}, {3.98530731424186, 1.58421518288356}},
     1e-7},
    {"sagan.gan",
     "size=16 attn=8 nz=5 wide=2 kinds=3 n_power_iterations=60",
     {{3.75789444366817, -2.68715270177351}, {2.77738522577319, -1.55970166432784}},
     1e-5}, // u and v are constants after the power iterations
    {"biggan.gan",
     "levels=[2,1] attn=4 z_chunk=3 wide=2 kinds=3 shared=3 rounds=1 keep=0.5 "
     "n_power_iterations=60",
     {{3.77558941327547, 0.431165459462225}, {2.42494339753274, 0.256728807355306}},
     1e-4}, // as sagan; power iterations converge slowly for nearly orthogonal weights
    {"infogan.gan",
     "nz=4 kinds=3 wide=2",
     {{1.39853281521247, 1.66796561172754}, {1.3952300717146, 1.62010075167329}},
     1e-7},
    {"stargan.gan",
     "size=16 depth=2 kinds=3 wide=2 blocks=1 rounds=1",
     {{6.09342918163971, 6.54959245252614}, {5.94995754154405, 6.43073770644881}},
     1e-7},
    {"wavegan.gan",
     "slice=256 nz=5 wide=2 rounds=1",
     {{8.16120432075685, -0.000560484733687719}, {8.0775771633694, -0.000104650998751408}},
     1e-7},
    {"hifigan.gan",
     "slice=256 window=64 ups=[4,4] bands=3 wide=8 wide_D=128 periods=[2,3]",
     {{5.0008833523544, 124.732106651457}, {4.49246334271993, 96.0763407995228}},
     1e-5}, // as sagan
    {"munit.gan",
     "size=16 wide=1 blocks=1 scales=1",
     {{2.00001108774743, 32.2540549469188}, {1.99191220539798, 31.4678747427798}},
     1e-7},
    {"progan.gan",
     "size=8 nz=5 wide=4 fade=40",
     {{2.5234713725148, -0.998854406195782}, {3.339473980081, -0.483812202899117}},
     1e-7},
    {"r3gan.gan",
     "size=8 full=4 wide=4 groups=2 nz=5 blocks=1 span=1 memory=0.02",
     {{0.733306158009301, 0.673939809332931}, {0.70681241192806, 0.704188303373076}},
     1e-7},
    {"stylegan2.gan",
     "size=8 nz=5 depth=2 wide=3 group=3",
     {{2.60992333543787, 8.98222703518982}, {4.04840085656841, 16.110782447414}},
     1e-7},
};

static void check_losses(const Trial *t, const double *want, const char *model) {
    for (int u = 0; u < 2; u++) {
        if (getenv("BLESS"))
            printf("%.15g, ", t->loss[u]);
        else if (!(fabs(t->loss[u] - want[u]) <= 1e-9 * fmax(1, fabs(want[u]))))
            fail_msg("%s, step %u, update %d: the loss is %.15g, recorded is %.15g", model,
                     t->counters.step, u, t->loss[u], want[u]);
    }
}

static void check_gradient(Trial *t, const char *model, double most) {
    double error = trial_gradient_error(t);
    if (!(error <= most))
        fail_msg("%s: the first update's gradient is off by %.3g", model, error);
}

static void models_train_to_recorded_losses(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        Arena a = empty;
        Trial t;
        Str text = trial_read(&a, MODELS, str_c(runs[i].model));
        trial_open(
            &t, &a,
            &(TrialOptions){.name = runs[i].model, .text = text, .batch = 3, .set = runs[i].set});
        for (int step = 1; step <= 20; step++) {
            if (step == 17) // includes lazy penalties, and no bias is exactly 0, a kink of relu
                check_gradient(&t, runs[i].model, runs[i].gradient);
            trial_step(&t);
            if (step == 1 || step == 20)
                check_losses(&t, runs[i].loss[step == 20], runs[i].model);
        }
        trial_close(&t);
    }
}

// --- models in documents -------------------------------------------------------------------------

// The next block between ```gan, or ```gan small, and ``` from `*at` on; empty after the last.
// *change: it is the latter.
static Str next_block(Str doc, size_t *at, bool *change) {
    static const char open[] = "\n```gan", close[] = "\n```\n";
    const char *from = strstr(doc.ptr + *at, open);
    const char *to = from ? strstr(from + 1, close) : NULL;
    if (!to)
        return (Str){0};
    *change = str_starts(str_c(from), STR("\n```gan small\n"));
    from = strchr(from + 1, '\n') + 1;
    *at = (size_t)(to - doc.ptr) + 1;
    return (Str){from, (size_t)(to - from) + 1};
}

// --- changes of the baseline ---

typedef struct Item {
    Str name, text; // `net G`, `step`, `opt`; whole lines
} Item;
typedef VEC(Item) Items;

static bool begins_item(Str line) {
    return line.len && !strchr(" }#\n", line.ptr[0]);
}

static Str name_of_item(Str line) {
    size_t n = strcspn(line.ptr, " ({:=,\n");
    bool of_two = line.ptr[n] == ' ' && isalpha((unsigned char)line.ptr[n + 1]);
    return str_sub(line, 0, of_two ? n + 1 + strcspn(line.ptr + n + 1, " ({:=,\n") : n);
}

// The items of a text, each with the comments in front of it.
static Items items_of(Arena *a, Str text) {
    Items all = {0};
    size_t from = 0, at = 0;
    bool open = false;
    while (at < text.len) {
        Str line = str_sub(text, at, at + str_find(str_sub(text, at, text.len), '\n') + 1);
        bool outside = !strchr(" }\n", line.ptr[0]);
        if (open && outside) {
            all.at[all.n - 1].text = str_sub(text, from, at);
            from = at;
            open = false;
        }
        if (begins_item(line)) {
            vec_push(a, &all, ((Item){.name = name_of_item(line)}));
            open = true;
        }
        at += line.len;
    }
    if (open)
        all.at[all.n - 1].text = str_sub(text, from, text.len);
    return all;
}

static Item *find_item(Items *all, Str name) {
    for (uint32_t i = 0; i < all->n; i++)
        if (str_eq(all->at[i].name, name))
            return &all->at[i];
    return NULL;
}

static bool has_word(Str text, Str word) {
    for (size_t i = 0; i + word.len <= text.len; i++) {
        bool begins =
            i == 0 || !(isalnum((unsigned char)text.ptr[i - 1]) || text.ptr[i - 1] == '_');
        bool ends = i + word.len == text.len || !(isalnum((unsigned char)text.ptr[i + word.len]) ||
                                                  text.ptr[i + word.len] == '_');
        if (begins && ends && str_eq(str_sub(text, i, i + word.len), word))
            return true;
    }
    return false;
}

// Whether a config or an optimizer of the baseline is one that the change leaves without a reader:
// a reader removes it, as the compiler says.
static bool is_left_over(const Items *old, Items *new, const Item *item) {
    bool config = str_starts(item->name, STR("config "));
    Str name = str_sub(item->name, config ? sizeof "config" : 0, item->name.len);
    bool read = !config && !str_eq(name, STR("opt"));
    for (uint32_t i = 0; i < old->n; i++)
        read = read || (&old->at[i] != item && !find_item(new, old->at[i].name) &&
                        has_word(old->at[i].text, name));
    for (uint32_t i = 0; i < new->n; i++)
        read = read || has_word(new->at[i].text, name);
    return !read;
}

// The baseline with the items of `change` in place of its own of the same name. Others come before
// its step; configs and data, which nets read, before its nets.
static Str changed(Arena *a, Str baseline, Str change) {
    Items old = items_of(a, baseline), new = items_of(a, change);
    Text t = {.arena = a};
    bool declared = false;
    for (uint32_t i = 0; i < old.n; i++) {
        bool step = str_eq(old.at[i].name, STR("step"));
        bool declares = step || str_starts(old.at[i].name, STR("fn "));
        for (uint32_t k = 0; (step || (declares && !declared)) && k < new.n; k++) {
            Str name = new.at[k].name;
            bool early = str_starts(name, STR("config ")) || str_starts(name, STR("data "));
            if (early == !step && !find_item(&old, name))
                text_put(&t, new.at[k].text);
        }
        declared = declared || declares;
        const Item *other = find_item(&new, old.at[i].name);
        if (other || !is_left_over(&old, &new, &old.at[i]))
            text_put(&t, other ? other->text : old.at[i].text);
    }
    return text_str(&t);
}

static void models_in_documents_compile(void **state) {
    static const char *const document[] = {"cookbook.md", "pytorch.md"};
    (void)state;
    for (size_t d = 0; d < sizeof document / sizeof *document; d++) {
        Arena a = empty;
        Str doc = str_c(str_z(&a, trial_read(&a, ROOT_DIR "/docs", str_c(document[d])))), block;
        Str baseline = {0};
        size_t at = 0;
        uint32_t n = 0;
        bool change = false;
        while ((block = next_block(doc, &at, &change)).len) {
            Arena scratch = a;
            const char *name = str_format(&scratch, "%s, block %u", document[d], ++n).ptr;
            if (str_starts(block, STR("model small ")))
                baseline = block;
            if (change)
                block = changed(&scratch, baseline, block);
            trial_module(&scratch, &(TrialOptions){.name = name, .text = block, .batch = 4});
        }
        assert_true(n > 0);
    }
}

// README.md shows dcgan.gan exactly.
static void the_readme_shows_a_model_as_it_is(void **state) {
    Arena a = empty;
    (void)state;
    const char *readme = str_z(&a, trial_read(&a, ROOT_DIR, STR("README.md"))),
               *model = str_z(&a, trial_read(&a, MODELS, STR("dcgan.gan")));
    assert_non_null(strstr(readme, model));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_has_a_twin_with_the_same_graph),
        cmocka_unit_test(models_train_to_recorded_losses),
        cmocka_unit_test(models_in_documents_compile),
        cmocka_unit_test(the_readme_shows_a_model_as_it_is),
    };
    return ARENA_CASES(tests, 0);
}

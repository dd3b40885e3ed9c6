// doctor_test.c - `ganrun doctor` where a library that was there when this was built is there no
// more, as in an archive that was made on another machine; and where the driver cannot start.
#define _GNU_SOURCE
#include "fixture.h"
#include "commands.h"

#include <dlfcn.h>
#include "cases.h"

static const struct {
    const char *name, *file;
} late[] = {{"libwebp", "libwebp."},
            {"libhdf5", "libhdf5"},
            {"libsndfile", "libsndfile"},
            {"openblas", "openblas"}};
enum { Late = sizeof late / sizeof *late };
static bool refuse, stuck; // stuck: this program is the driver, cuDNN and CUPTI

// In place of libc's.
void *dlopen(const char *name, int how) {
    void *(*real)(const char *, int);
    void *at = dlsym(RTLD_NEXT, "dlopen");
    memcpy(&real, &at, sizeof real);
    for (size_t i = 0; refuse && name && i < Late; i++)
        if (strstr(name, late[i].file))
            return NULL;
    bool own =
        stuck && name &&
        (strstr(name, "libcuda.so") || strstr(name, "libcudnn.so") || strstr(name, "libcupti.so"));
    return real(own ? NULL : name, how);
}

// The functions of a driver whose machine is not ready (CUDA_ERROR_SYSTEM_NOT_READY): servers with
// NVLink switches are, until a service of theirs runs.
enum { NotReady = 802 };
#define NOT_READY(name)                                                                            \
    int name(void);                                                                                \
    int name(void) {                                                                               \
        return NotReady;                                                                           \
    }
NOT_READY(cuInit)
NOT_READY(cuDeviceGetCount)
NOT_READY(cuDeviceGetName)
NOT_READY(cuDeviceGetAttribute)
NOT_READY(cuDeviceTotalMem_v2)
int cuGetErrorString(int code, const char **out);
int cuGetErrorString(int code, const char **out) {
    *out = code == NotReady ? "system not yet initialized" : NULL;
    return 0;
}

static int driver; // its version; 0: that it does not say either
int cuDriverGetVersion(int *out);
int cuDriverGetVersion(int *out) {
    *out = driver;
    return driver ? 0 : NotReady;
}

size_t cudnnGetVersion(void);
size_t cudnnGetVersion(void) {
    return 91900;
}
size_t cudnnGetCudartVersion(void);
size_t cudnnGetCudartVersion(void) {
    return 13020;
}

static Text said;

static void hear(void *user, Str text) {
    (void)user;
    text_put(&said, text);
}

// *why it is not found.
static bool finds(const Json *root, const char *library, Str *why) {
    const Json *list = json_get(root, "libraries");
    for (uint32_t i = 0; i < json_count(list); i++) {
        const Json *x = json_at(list, i);
        *why = json_string(json_get(x, "why"), (Str){0});
        if (str_eq(json_string(json_get(x, "name"), (Str){0}), str_c(library)))
            return json_bool(json_get(x, "found"), false);
    }
    fail_msg("nothing is said of %s in %.*s", library, SARG(text_str(&said)));
    return false;
}

static const Json *doctor(Arena *a) {
    const Host h = {.console = {.result = hear, .say = hear, .live = hear}, .self = STR("ganrun")};
    Options o = {.command = CommandDoctor};
    const Json *root;
    o.at[OptJson].given = true;
    said = (Text){.arena = a};
    assert_ok(cmd_doctor(a, &h, &o));
    assert_ok(json_parse(a, text_str(&said), STR("doctor"), &root));
    return root;
}

static void a_library_that_cannot_be_loaded_is_missing(void **state) {
    Fixture *p = *state;
    Str why[Late], again;
    refuse = true; // before any is loaded
    const Json *root = doctor(&p->arena);
    assert_null(json_get(root, "cache")); // there is no home folder
    for (size_t i = 0; i < Late; i++)
        assert_false(finds(root, late[i].name, &why[i]));
    refuse = false;
    root = doctor(&p->arena);
    for (size_t i = 0; i < Late; i++)
        if (finds(root, late[i].name, &again))
            assert_non_null(strstr(str_z(&p->arena, why[i]), "was there when this program was"));
}

static void a_driver_that_cannot_start_says_why(void **state) {
    Fixture *p = *state;
    Str why;
    stuck = true;
    const Json *root = doctor(&p->arena);
    stuck = false;
    assert_false(finds(root, "NVIDIA driver", &why));
    assert_true(str_eq(why, STR("the driver says: system not yet initialized (802)")));
}

// A cuDNN has one file name for all versions of CUDA, and a driver serves none of a later one.
static void a_cudnn_that_the_driver_does_not_serve_is_not_found(void **state) {
    Fixture *p = *state;
    const int versions[] = {12080, 13000, 14000};
    Str why;
    for (int i = 0; i < 3; i++) {
        driver = versions[i];
        stuck = true;
        const Json *root = doctor(&p->arena);
        stuck = false;
        driver = 0;
        bool found = finds(root, "cuDNN", &why); // or built without its header
        assert_int_equal(!found && str_eq(why, STR("it is built for CUDA 13, and the NVIDIA driver "
                                                   "serves CUDA 12.8 and older")),
                         i == 0);
    }
}

// CUPTI 13.2 recurses without end where the driver cannot start, from whichever function is called.
static bool asked;
int cuptiGetVersion(uint32_t *out);
int cuptiGetVersion(uint32_t *out) {
    *out = 130200;
    asked = true;
    return 0;
}

static void cupti_is_not_called_without_a_card(void **state) {
    Fixture *p = *state;
    Str why;
    stuck = true;
    const Json *root = doctor(&p->arena);
    stuck = false;
    assert_true(finds(root, "CUPTI", &why));
    assert_false(asked);
}

#define T(test) cmocka_unit_test_setup_teardown(test, fixture_open, fixture_close)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {T(a_library_that_cannot_be_loaded_is_missing),
                                       T(a_driver_that_cannot_start_says_why),
                                       T(a_cudnn_that_the_driver_does_not_serve_is_not_found),
                                       T(cupti_is_not_called_without_a_card)};
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

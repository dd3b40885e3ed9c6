// image_png.c - PNG in and out through libpng.
//
// libpng reports errors by longjmp. Each direction therefore has one function that calls setjmp and
// holds no resources of its own: everything to release lives in the caller's struct, which outlives
// the jump.
#include "bytes.h"
#include "format.h"
#include <png.h>
#include <string.h>

// Of zlib. Its default, 6, takes twice the processor time, for files of 0.99 to 1.03 times the
// size.
enum { Level = 4 };

typedef struct PngJob {
    png_structp png;
    png_infop info;
    const uint8_t *data; // reading: borrowed
    size_t n, at;
    Bytes made;        // writing: owned
    const Image *from; // writing: borrowed
    Image image;       // reading: owned
    uint32_t orientation;
    png_bytep *row; // owned, heap
    GanStatus st;
    char why[128];
} PngJob;

static void on_error(png_structp png, png_const_charp message) {
    PngJob *job = png_get_error_ptr(png);
    if (job->st == GAN_OK)
        job->st = GAN_ERR_INPUT;
    if (!job->why[0])
        snprintf(job->why, sizeof job->why, "%s", message);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp message) {
    (void)png;
    (void)message; // what libpng can mend is none of the user's business
}

// libpng says the same of short memory as of a broken picture, which --skip-bad would leave out.
static png_voidp allocate(png_structp png, png_alloc_size_t n) {
    PngJob *job = png_get_mem_ptr(png);
    void *at = mem_alloc(n);
    if (!at)
        job->st = GAN_ERR_MEMORY;
    return at;
}

static void release(png_structp png, png_voidp at) {
    (void)png;
    mem_free(at);
}

static void stop(PngJob *job, GanStatus st, const char *why) {
    job->st = st;
    png_error(job->png, why);
}

static bool make_rows(PngJob *job, const Image *m) {
    size_t bytes = (size_t)m->w * m->channels * (m->bits / 8);
    job->row = mem_alloc(m->h * sizeof *job->row);
    for (uint32_t y = 0; job->row && y < m->h; y++)
        job->row[y] = (png_bytep)m->pixels + y * bytes;
    return job->row != NULL;
}

// --- reading -------------------------------------------------------------------------------------

static void take_bytes(png_structp png, png_bytep to, size_t n) {
    PngJob *job = png_get_io_ptr(png);
    if (n > job->n - job->at)
        stop(job, GAN_ERR_INPUT, "the file ends too early");
    memcpy(to, job->data + job->at, n);
    job->at += n;
}

static uint32_t orientation_of(PngJob *job) {
    png_uint_32 size = 0;
    png_bytep exif = NULL;
    return png_get_eXIf_1(job->png, job->info, &size, &exif) ? exif_orientation(exif, size) : 1;
}

// Everything that may jump. The EXIF chunk may stand behind the pixels. Palettes, low bit depths
// and tRNS become plain 8-bit channels; 16 bits stay 16 bits.
static bool decode_rows(PngJob *job) {
    if (setjmp(png_jmpbuf(job->png)))
        return false;
    png_set_read_fn(job->png, job, take_bytes);
    png_read_info(job->png, job->info);
    png_set_expand(job->png);
    if (is_little_endian())
        png_set_swap(job->png);
    png_set_interlace_handling(job->png);
    uint32_t w = png_get_image_width(job->png, job->info),
             h = png_get_image_height(job->png, job->info);
    png_read_update_info(job->png, job->info);
    uint32_t channels = png_get_channels(job->png, job->info),
             bits = png_get_bit_depth(job->png, job->info);
    GanStatus st = image_new(w, h, channels, bits, &job->image);
    if (st != GAN_OK)
        stop(job, st, gan_error());
    if (!make_rows(job, &job->image))
        stop(job, GAN_ERR_MEMORY, "no memory for the rows");
    png_read_image(job->png, job->row);
    png_read_end(job->png, job->info);
    job->orientation = orientation_of(job);
    return true;
}

GanStatus image_png_decode(const uint8_t *data, size_t n, Image *out) {
    PngJob job = {.data = data, .n = n};
    *out = (Image){0};
    job.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &job, on_error, on_warning, &job,
                                       allocate, release);
    if (job.png)
        job.info = png_create_info_struct(job.png);
    bool ok = job.info && decode_rows(&job);
    bool ready = job.info != NULL;
    png_destroy_read_struct(&job.png, &job.info, NULL);
    mem_free(job.row);
    GanStatus st = ok      ? image_orient(&job.image, job.orientation)
                   : ready ? fail(job.st, "broken PNG: %s", job.why)
                           : fail(GAN_ERR_MEMORY, "no memory to read a PNG");
    if (st == GAN_OK)
        *out = job.image;
    else
        image_release(&job.image);
    return st;
}

// --- writing -------------------------------------------------------------------------------------

static void give_bytes(png_structp png, png_bytep from, size_t n) {
    PngJob *job = png_get_io_ptr(png);
    if (!bytes_put(&job->made, from, n))
        stop(job, GAN_ERR_MEMORY, "no memory for the file");
}

static void no_flush(png_structp png) {
    (void)png;
}

static bool encode_rows(PngJob *job) {
    static const int color_of[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA,
                                   PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
    const Image *m = job->from;
    if (setjmp(png_jmpbuf(job->png)))
        return false;
    png_set_write_fn(job->png, job, give_bytes, no_flush);
    png_set_compression_level(job->png, Level);
    png_set_IHDR(job->png, job->info, m->w, m->h, (int)m->bits, color_of[m->channels],
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(job->png, job->info);
    if (m->bits == 16 && is_little_endian())
        png_set_swap(job->png);
    if (!make_rows(job, m))
        stop(job, GAN_ERR_MEMORY, "no memory for the rows");
    png_write_image(job->png, job->row);
    png_write_end(job->png, NULL);
    return true;
}

GanStatus image_write_png(Str path, const Image *m) {
    assert(m->channels >= 1 && m->channels <= 4 && (m->bits == 8 || m->bits == 16));
    PngJob job = {.from = m};
    job.png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &job, on_error, on_warning, &job,
                                        allocate, release);
    if (job.png)
        job.info = png_create_info_struct(job.png);
    bool ready = job.info != NULL, ok = ready && encode_rows(&job);
    png_destroy_write_struct(&job.png, &job.info);
    mem_free(job.row);
    GanStatus st = GAN_OK;
    if (ok)
        st = file_write_atomic(path, job.made.at, job.made.n);
    else if (ready)
        st = fail(job.st, "%.*s: cannot make a PNG: %s", SARG(path), job.why);
    else
        st = fail(GAN_ERR_MEMORY, "%.*s: no memory to make a PNG", SARG(path));
    mem_free(job.made.at);
    return st;
}

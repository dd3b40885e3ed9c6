// image_jpeg.c - JPEG in through libjpeg-turbo: grey, YCbCr and RGB, and CMYK as RGB.
//
// libjpeg reports errors by longjmp from its error hook, and replaces damaged parts by grey pixels
// with a warning. A training set should not hold such images, so these warnings are errors here.
// One function calls setjmp and owns nothing.
#include "format.h"

#include <setjmp.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

enum { ScansMost = 500, InkChannels = 4, App1 = JPEG_APP0 + 1 };

typedef struct JpegJob {
    struct jpeg_error_mgr errors; // first: the library's pointer to it is the job's
    struct jpeg_decompress_struct jpeg;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    const uint8_t *data; // borrowed
    size_t n;
    Image image; // owned
    uint32_t orientation;
    GanStatus st;
    char why[JMSG_LENGTH_MAX];
} JpegJob;

static _Noreturn void stop(JpegJob *job, GanStatus st) {
    job->st = st;
    longjmp(job->back, 1);
}

// Short memory is no broken picture, which --skip-bad would leave out.
static _Noreturn void on_error(j_common_ptr common) {
    JpegJob *job = (JpegJob *)common->err;
    int code = common->err->msg_code;
    bool memory = code == JERR_OUT_OF_MEMORY || code == JERR_NO_BACKING_STORE;
    common->err->format_message(common, job->why);
    stop(job, memory ? GAN_ERR_MEMORY : GAN_ERR_INPUT);
}

static void on_message(j_common_ptr common, int level) {
    if (level >= 0)
        return;
    switch (common->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA: // cameras leave such bytes between markers; the image is whole
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
        return;
    case JWRN_JPEG_EOF: {
        JpegJob *job = (JpegJob *)common->err;
        snprintf(job->why, sizeof job->why, "the file ends too early");
        stop(job, GAN_ERR_INPUT);
    }
    default:
        on_error(common);
    }
}

// A file of some kilobytes can have thousands of scans, each of which goes over all pixels.
static void on_progress(j_common_ptr common) {
    JpegJob *job = (JpegJob *)common->err;
    if (job->jpeg.input_scan_number <= ScansMost)
        return;
    snprintf(job->why, sizeof job->why, "more than %d scans", ScansMost);
    stop(job, GAN_ERR_INPUT);
}

static uint32_t orientation_of(const struct jpeg_decompress_struct *jpeg) {
    static const char exif[6] = "Exif\0";
    for (jpeg_saved_marker_ptr m = jpeg->marker_list; m; m = m->next)
        if (m->marker == App1 && m->data_length > sizeof exif &&
            memcmp(m->data, exif, sizeof exif) == 0)
            return exif_orientation(m->data + sizeof exif, m->data_length - sizeof exif);
    return 1;
}

// Inks, inverted as Adobe's programs store them, times the light that black lets through. PIL
// converts so too.
static void rgb_of_inks(const uint8_t *ink, size_t n, uint8_t *rgb) {
    for (size_t i = 0; i < n; i++, ink += InkChannels, rgb += 3)
        for (uint32_t k = 0; k < 3; k++)
            rgb[k] = (uint8_t)((ink[k] * ink[3] + 127) / 255);
}

static bool decode_rows(JpegJob *job) {
    if (setjmp(job->back))
        return false;
    jpeg_create_decompress(&job->jpeg);
    job->progress.progress_monitor = on_progress;
    job->jpeg.progress = &job->progress;
    jpeg_mem_src(&job->jpeg, job->data, (unsigned long)job->n);
    jpeg_save_markers(&job->jpeg, App1, 0xffff);
    jpeg_read_header(&job->jpeg, TRUE);
    job->orientation = orientation_of(&job->jpeg);
    bool grey = job->jpeg.num_components == 1, inks = job->jpeg.num_components == InkChannels;
    job->jpeg.out_color_space = grey ? JCS_GRAYSCALE : inks ? JCS_CMYK : JCS_RGB;
    job->jpeg.dct_method = JDCT_ISLOW; // the exact one: the same pixels on every machine
    GanStatus st =
        image_new(job->jpeg.image_width, job->jpeg.image_height, grey ? 1 : 3, 8, &job->image);
    if (st != GAN_OK) {
        snprintf(job->why, sizeof job->why, "%s", gan_error());
        stop(job, st);
    }
    jpeg_start_decompress(&job->jpeg);
    size_t bytes = (size_t)job->image.w * job->image.channels;
    j_common_ptr common = (j_common_ptr)&job->jpeg;
    JSAMPARRAY ink =
        inks ? job->jpeg.mem->alloc_sarray(common, JPOOL_IMAGE, job->image.w * InkChannels, 1)
             : NULL;
    while (job->jpeg.output_scanline < job->jpeg.output_height) {
        JSAMPROW row = (JSAMPROW)job->image.pixels + job->jpeg.output_scanline * bytes;
        jpeg_read_scanlines(&job->jpeg, inks ? ink : &row, 1);
        if (inks)
            rgb_of_inks(ink[0], job->image.w, row);
    }
    jpeg_finish_decompress(&job->jpeg);
    return true;
}

GanStatus image_jpeg_decode(const uint8_t *data, size_t n, Image *out) {
    JpegJob job = {.data = data, .n = n};
    job.jpeg.err = jpeg_std_error(&job.errors);
    job.errors.error_exit = on_error;
    job.errors.emit_message = on_message;
    bool ok = decode_rows(&job);
    jpeg_destroy_decompress(&job.jpeg);
    GanStatus st =
        ok ? image_orient(&job.image, job.orientation)
           : fail(job.st,
                  job.st == GAN_ERR_MEMORY ? "no memory to read a JPEG: %s" : "broken JPEG: %s",
                  job.why);
    if (st != GAN_OK)
        image_release(&job.image);
    *out = job.image;
    return st;
}

// stdlib_test.c - the library: each function's value, which an independent program computed from
// the same inputs, and its gradient against finite differences. Each table row is an expression of
// the language; adding a row adds a test.
#include "measure.h"
#include "trial.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include "arena_cases.h"

typedef struct Row {
    const char *expr;
    double want; // the loss at the first step, or (optimizers) the last weights times 1, 2, 3
} Row;

// Checks a row's loss, and its gradient where that covers the whole loss. With BLESS in the
// environment it only prints the value.
static void check_row(const char *model, Row row, bool whole) {
    Arena a = empty;
    Trial t;
    Str text = str_format(&a, model, row.expr);
    trial_open(&t, &a, &(TrialOptions){.name = row.expr, .text = text, .batch = 4, .fed = true});
    trial_set_weights(&t);
    double error = trial_gradient_error(&t), got = t.loss[0];
    trial_close(&t);
    if (getenv("BLESS"))
        printf("%.15g\t%.2g\t%s\n", got, error, row.expr);
    else if (!(fabs(got - row.want) <= 1e-12 * fmax(1, fabs(row.want))))
        fail_msg("%s gives %.15g, not %.15g", row.expr, got, row.want);
    if (whole && !(error <= 1e-7))
        fail_msg("%s: its gradient is off by %.3g", row.expr, error);
}

static void check_loss(const char *model, Row row) {
    check_row(model, row, true);
}

// --- layers: a weight `at` moves the input, k makes one number of the output ---------------------

#define LAYER                                                                                      \
    "model m\ndata x : float(2, 4, 4), k : float(256), y : label(3)\nopt = sgd(lr=0.1)\n"          \
    "net N(x: [2, 4, 4], k: [256], y) {\n  _y = y\n  param at : [2, 4, 4] = 0\n  x = x + at\n  r " \
    "= %s\n"                                                                                       \
    "  sum(flatten(r) * k[:prod(shape(r))], sample)\n}\n"                                          \
    "step { update N minimize mean(N(x, k, y)) using opt }\n"

static const Row layers[] = {
    {"relu(x)", 0.15405682679823074},
    {"where(x > 0.5, 2, relu(x))", 0.178258801917577},
    {"[where(s == s, s, 2) for s in [relu(where(x > 0.5, log(-x), x))]][0]",
     0.178258801917577},                                      // NaN stays NaN
    {"x*(x > 0 and not (x and 1 > 2))", 0.15405682679823074}, // non-zero numbers are true
    {"x*(x and 3*x) - x*(not (x or 0))", 0.174749872701247},  // as x alone
    {"[g[0] + g[1] for g in [grad(sum(p[0]^2*p[1], sample), p) for p in [[2*x, 3*x]]]][0]",
     0.448529740352184}, // 16*x^2
    {"selu(3*x)", 0.150148162297755},
    {"cosine_similarity(x, x^2 + 0.1)", 0.00251526562972473},
    {"x |> rms_norm(channel, affine=false)", -0.153867757999556},
    {"[p[0]*p[1] for p in [chunk(reshape(x, 8, 4), 2)]][0]", 0.270119811136157},
    {"avg_pool(x, 2, stride=1)", 0.579614885475502},
    {"sum([i*c*x[j] for i, c in enumerate(reversed([2, 3, 5])) for j in reversed(range(2))])",
     -1.1891821799743993},
    {"sum([a*x[0] + last*sum(rest)*x[1] for a, ...rest, last in [[1, 2, 3, 4]]])",
     -13.0247982259424},
    {"linspace(-1, 2, 4)*x[0]", 0.9054132104018099},
    {"arange(3, 7)*x[0]", 2.93217844294643},
    {"leaky_relu(x, 0.2)", 0.15819543597883401},
    {"x |> prelu", 0.16453114979162528},
    {"elu(3*x, 0.7)", 0.32860671241530431},
    {"gelu(x)", 0.1020418207182887},
    {"silu(x)", 0.095546273425188247},
    {"mish(x)", 0.10888858353518001},
    {"softplus(x)", 0.25615089116496292},
    {"einsum(\"ij,jkl->ikl\", stack([1, 2], [3, 4]) + eye(2), x)", -2.549281108807127},
    {"inverse(x)", 0.6116944578469181},
    {"solve(x, x[:, 0])*det(x)", -0.1680998755695477},
    {"einsum(\"ijk,l->ljk\", x, [r[0]*r[1] for r in [slogdet(x[:, 1:3, 1:3])]][0])",
     0.6699550374619537},
    {"solve(x[0], x[1]) + solve(stack([1, 2], [3, 4]), stack(1, 2))[0]", -1.642324344686611},
    {"cholesky(einsum(\"ijk,ilk->ijl\", x, x) + unsqueeze(eye(4), 0))", 0.9850183899000529},
    {"sqrtm(einsum(\"ij,kj->ik\", x[0], x[0]) + eye(4))[0]", -0.6306222846244575},
    {"sqrtm(einsum(\"ij,kj->ik\", x[0], x[0]) + eye(4), 30)[1]", -0.13152621728441943},
    {"softmax(x, channel)", 0.360389466818135},
    {"unit(x)", 0.04582659352548326},
    {"var(x, space) * std(x, sample)", -0.015627592362734241},
    {"x |> conv(3, k=3, stride=2, pad=1)", -1.9337524778824036},
    {"x |> conv(4, k=2, dilation=2, groups=2)", -0.3162846034443464},
    {"x |> reshape(2, 16) |> conv(3, k=5, stride=3, pad=[1, 2])", 0.07771034322750581},
    {"x |> reshape(2, 8, 2) |> conv(3, k=[3, 1], pad=1)", 0.5136928280166932},
    {"x |> reshape(2, 2, 4, 2) |> conv(3, k=[2, 3, 1], pad=[0, 1])", -1.115753357076082},
    {"x |> conv(3, k=2, reparam=spectral_norm(iterations=100))", -1.8190597669110022},
    {"x |> conv(3, k=3, reparam=equalized)", -0.91160201347590231},
    {"x |> conv(3, k=3, reparam=weight_norm)", 0.253660378041929},
    {"convolve(x, 3*x |> permute(1, 0, 2) |> reshape(4, 2, 2, 2), pad=1)", 0.433042807392057},
    {"convolve(x, concat(x, 2*x) |> reshape(4, 1, 4, 4), stride=2, pad=[2, 1], groups=2)",
     3.958818792402401},
    {"convolve_transpose(x, concat(x, 2*x) |> reshape(2, 2, 4, 4), stride=2, pad=1)",
     9.505946884442242},
    {"convolve(x |> reshape(2, 16), x |> reshape(4, 2, 4), dilation=3, pad=[4, 5])",
     -1.0149956541965903},
    {"x |> conv_transpose(3, k=4, stride=2, pad=1)", 1.9939795114513943},
    {"x |> conv_transpose(3, k=2, reparam=spectral_norm(iterations=100))", -0.0305957452567719},
    {"x |> conv_transpose(3, k=2, reparam=equalized)", -0.0223436184108554},
    {"x |> conv_transpose(3, k=2, reparam=weight_norm)", 1.04064615411213},
    {"x |> reshape(2, 8, 2) |> conv_transpose(3, k=[3, 2], stride=2, pad=[[1, 0], [1, 0]])",
     -1.6283737241927305},
    {"x |> conv_transpose(2, k=3, stride=2, groups=2)", -4.4824543181645},
    {"x |> conv_transpose(3, k=3, pad=1, dilation=2)", -8.65946383187514},
    {"x |> conv_transpose(3, k=[4, 3], stride=[2, 1], pad=[1, [0, 2]])", 0.975078276403513},
    {"x |> conv(3, k=[4, 3], stride=[2, 1], dilation=[1, 2], pad=\"same\")", 0.441677474673711},
    {"x |> reshape(2, 16) |> conv_transpose(1, k=5, stride=4, pad=\"same\")", -0.432666745779091},
    {"x |> conv_transpose(3, k=[1, 3], stride=[2, 1], pad=\"same\")", 1.603078030279932},
    {"x |> conv_transpose(2, k=[2, 1], stride=[4, 2], groups=2, pad=\"same\")",
     -0.8149826605681929},
    {"x |> conv_transpose(1, k=2, stride=[4, 3], dilation=[2, 1], pad=\"same\")",
     0.7222136478829755},
    {"embed(5)(y) * mean(x, sample)", 0.033707440116293931},
    {"x |> batch_norm", 0.82351936820153637},
    {"x |> batch_norm(group=2)", 0.68491385476140332},
    {"conditional_batch_norm(y)(x)", 0.12384287715379427},
    {"x |> layer_norm", 0.0053396076952808569},
    {"x |> rms_norm(axis(2))", -0.508976267855594},
    {"x |> layer_norm([axis(0), axis(2)])", 0.17427010067121},
    {"x |> instance_norm", 0.11035769385007271},
    {"x |> group_norm(2)", 0.57622324007310455},
    {"x |> pixel_norm", -0.15389922128132827},
    {"x |> minibatch_std(group=2)", 0.37752936448892516},
    {"x |> glu", 0.318113558355292},
    {"logsumexp(3*x, channel)", -0.169099491998327},
    {"logsumexp(3*x, space)", -0.134404432314215},
    // of what is infinite, as without it
    {"[x[0] + exp(-logsumexp(where(q > 0.5, 1/relu(-q), q), channel))\n"
     "       for q in [reshape(k[:32], 2, 4, 4)]][0]",
     -0.899055207662167},
    {"[x[0] + where(max(q, channel) > 0.5, 0, exp(-logsumexp(q, channel)))\n"
     "       for q in [reshape(k[:32], 2, 4, 4)]][0]",
     -0.899055207662167},
    {"x |> zero_pad(2)", 0.610457995612148},
    {"x |> zero_pad(0)", 0.174749872701247},
    {"x |> zero_pad([[1, 1], [2, 2]])", 0.202791888778695},
    {"x |> zero_pad([[1, 0], 2])", 1.3630856520953145},
    {"x |> reflect_pad([[1, 0], [0, 2]])", 2.9426482331097406},
    {"x |> edge_pad([[2, 0], [1, 3]])", 2.06715734564145},
    {"x |> take(clamp(arange(6) - 2, 0, 3), at=1) |> take(clamp(arange(8) - 1, 0, 3), at=2)",
     2.06715734564145}, // the same
    {"x |> max_pool(3, stride=2, pad=[1, [0, 1]])", -0.19946829809978625},
    {"x |> conv(3, k=[3, 1], pad=[[1, 1], 0])", 1.4759174100988663},
    {"x |> conv_transpose(3, k=3, stride=2, pad=[[1, 0], [1, 0]])", -0.31389998647886075},
    {"x |> resize_cubic(2)", 0.380124470749259},
    {"x |> resize_cubic([3, 7])", -0.733077107739666},
    {"x |> resize_cubic([3, 7], antialias=false)", -0.844694501245648},
    {"x |> resize_cubic([9, 2], antialias=false)", 0.783012470795017},
    {"x |> resize_linear([3, 7], antialias=true)", -0.568813580999392},
    {"x |> resize_linear([9, 2], antialias=true)", 0.733707097059778},
    {"x |> clean_resized(7)", -0.475090700519547},
    {"x |> clean_resized(3)", 0.515976283898132},
    {"x |> attention", 0.3531328072129043},
    {"x |> attention(pool=2)", 0.294047976867283},
    {"erfinv(tanh(x))", 0.130840193522372},
    {"atan2(x, x^2 - 0.3)", -2.87683853652187},
    {"atan2(k[:32]/relu(-k[:32]^2), k[32:64]/relu(-k[:32]^2)) + flatten(x)",
     22.7616913100304}, // infinite
    {"atan2(sign(k[:32]), sign(k[32:64])) + flatten(x)", 22.7616913100304},
    {"atan(3*x)", -0.13649443364221},
    {"tan(x)", 0.431690054553537},
    {"acos(tanh(x)) + asin(x/2)", 0.358657015693292},
    {"atan2(x - 0.5, -1)", -0.188505207266281},
    {"erfinv(1 - 0.001*sigmoid(x))", 0.570238917792648},
    {"normal_within(softplus(x), sigmoid(x))", 0.0606944551064909},
    {"x |> multihead_attention(2)", 0.15919283189535477},
    {"multihead_attention(2, bias=none)(x |> reshape(4, 8), to=reshape(x, 4, 8)[:, :5])",
     0.8439564430056087},
    {"gru(3)(flatten(x)[:5], flatten(x)[5:8])", -0.09968969947356354},
    {"rnn(gru(2), reshape(x, 8, 4), expand(0, 2))", 0.5003506027857663},
    {"lstm(3)(flatten(x)[:5], flatten(x)[5:11])", -0.1200163490813398},
    {"rnn(lstm(2), reshape(x, 8, 4), expand(0, 4))[:, :2]", -0.09341290828135715},
    {"gru(2, k=3)(x, x^2)", -0.7937679548563807}, // of positions: a convolution
    {"lstm(1, k=[3, 1])(x[:1], x)", 0.09412105224126922},
    {"lstm(2)(reshape(x, 4, 8)[:2], reshape(x, 4, 8))", -0.7865051984809833},
    {"unfold(x, 2)", -0.768069558255544},
    {"unfold(x, 3, stride=2, pad=1)", -0.658858801905238},
    {"unfold(x, [3, 1], stride=[1, 3], pad=[[1, 1], 0], dilation=[2, 1])", -0.862313536484879},
    {"upsample(x, 2)", 0.15097231323482152},
    {"upsample_linear(x)", 0.79000495816130323},
    {"resize_linear(x, [2*e for e in shape(x, space)])", 0.79000495816130323}, // the same
    {"upsample_linear(x[:1], 3)", -1.53797271860601},
    {"fir(x, 2)", 0.0931471967071543},
    {"fir(reshape(x, 2, 2, 8), 1)", 0.024231514832486922},
    {"x |> fir_up", 0.7994988674704915},
    {"x |> reshape(2, 16) |> fir_up", 1.1461437147393068},
    {"x |> fir_down", 0.2635106488858975},
    {"x |> reshape(2, 2, 2, 4) |> fir_down", -0.05244075205842871},
    {"x |> resize_nearest([3, 7])", -1.057201659940183},
    {"x |> resize_nearest(8)", 0.15097231323482152}, // as upsample
    {"x |> upfirdn([1, 2, -3], up=3, down=2, pad=[2, 1])", -7.672797858823317},
    {"x |> upfirdn([1, 2, -3], pad=[[2, 1], 0])", 11.556113911952574},
    {"x |> upfirdn([1, 2, 4, 0.5, -1], pad=2)", 14.676421288773449},
    {"x |> upfirdn([1, 2, -3], down=2, pad=[[1, 0], [-1, 2]])", 0.924045623967341},
    {"x |> upsample(2) |> reshape(8, 16, 1) |> upfirdn([2, -3], down=2, pad=[[1, 0], [0, 1]])",
     -0.380918058853376},
    {"x |> upfirdn([1/4, 3/4, 3/4, 1/4], up=2, pad=[2, 1])", 0.7994988674704915}, // as fir_up
    {"x |> upsample(2) |> reshape(16, 8) |> upfirdn([2, -3], up=2, pad=[1, 0])", 1.06511740424994},
    {"x |> upsample(2) |> reshape(16, 8) |> permute(1, 0) |> upfirdn_first([2, -3], 2, 1, 1, 0) |> "
     "permute(1, 0)",
     1.06511740424994}, // the same
    {"x |> upsample(2) |> reshape(16, 8) |> upfirdn([2, -3], up=3, down=2, pad=[0, -1])",
     -2.77506146008573},
    {"x |> upsample(2) |> reshape(16, 8) |> permute(1, 0) |> upfirdn_first([2, -3], 3, 2, 0, -1) "
     "|> "
     "permute(1, 0)",
     -2.77506146008573}, // the same
    {"x |> upfirdn(lowpass(5, 2, 3, 16), pad=2)", 0.12152946526003239},
    {"x |> upfirdn(lowpass(7, 2, 6, 16), pad=3)", 0.11150240441807648},
    {"avg_pool(x, 2)", 0.3361835976507494},
    {"pixel_shuffle(reshape(x, 8, 2, 2), 2)", 0.06931369194389958},
    {"pixel_unshuffle(x, 2)", 0.618676206544387},
    {"all_gather(mean(x, space))", 0.27967612610749204},
    {"exp(-sum((unsqueeze(flatten(x)[:2], 0) - all_gather(flatten(x)[:2]))^2, axis(1)))",
     0.2290672633437107},
    {"max_pool(x, 2)", -0.0060008803159614932},
    {"x |> max_pool([3, 2])", -0.0628186496565392},                     // of x[:, :3]
    {"x |> permute(1, 2, 0) |> avg_pool([3, 2])", -0.0853392940972214}, // of x[:, :, :3]
    {"x[:, stack(2, 0, 2)]",
     -0.265460879072099}, // stack(x[:, 2], x[:, 0], x[:, 2]) |> permute(1, 0, 2)
    {"x[1, 1:, stack([3, 1], [0, 2])]", 0.395146680245803}, // of x[1, 1:, 3], 1, 0 and 2
    {"x[:, expand(0, 2)]", 0.289676134898372}, // stack(x[:, 0], x[:, 0]) |> permute(1, 0, 2)
    {"x[1:, 1:, argmax(x[0, 0])]", 0.149118181400929}, // sum(one_hot(argmax(x[0, 0]), 4)*x[1:, 1:])
    {"x[:, 1 + arange(2), 1:3]", 0.441053289315603},   // x[:, 1:3, 1:3]
    {"roll(x, -3, 2)", -0.0501795286796424}, // concat(x[:, :, 3:], x[:, :, :3], axis=axis(2))
    {"x |> roll(5, 1) |> roll(-1, 1) |> roll(1)", -0.859843674869609}, // flip(x, axis(0))
    {"x |> max_pool([2, 1]) |> avg_pool([1, 4]) |> upsample([1, 3]) |> reflect_pad([[0, 0], [2, "
     "2]])",
     0.232910182583354},
    {"mean(x, space)*one_hot(y, 2) |> expand(2, 3, 4)", -0.00700488703148596},
    {"reshape(arange(8), 2, 4)*mean(x, axis(2))", -0.941639392960917},
    {"stack([i*mean(x, sample) for i in range(70)])", -5.64649700067132},
    {"x |> dropout(0.3)", 0.25799611863368371},
    {"einsum(\"cij, dij, dk -> ckd\", x, x, x[:, :, 0])", 0.0816989009327338},
    {"einsum(\"cij,ik,jl->ckl\", x, cos(reshape(arange(20), 4, 5)), cos(reshape(arange(12), 4, "
     "3)))",
     -0.1729758427781526},
    {"cumsum(x)", -1.3299108309650949},
    {"cumprod(x)", -0.10063766285038672},
    {"cumsum(flatten(x))", 0.545845514256118},
    {"cumprod(flatten(x) + 1)", -0.5789743138295097},
    {"softmax(x, axis(-1))", 0.09964278991057739},
    {"unsqueeze(reshape(x, -1, 8), -1)*expand(1, 4, 8, 3)", -0.5074868123665548},
    {"sort(x)", 0.0026368630735533055},
    {"take_along(x, argsort(x))", 0.0026368630735533055},
    {"take_along(x |> permute(0, 2, 1), argsort(x) |> permute(0, 2, 1), at=1) |> permute(0, 2, 1)",
     0.0026368630735533055},
    {"take_along(x, reshape(arange(3), 1, 1, 3))", -0.421118458503391},
    {"x[:, :, :3]", -0.421118458503391}, // the same
    {"stft(flatten(x), 8, 3, window=6, taper=flat)", 0.410591713993802},
    {"stft(flatten(x), 8, 3, taper=hamming)", -0.207571452977705},
    {"istft(stft(flatten(x), 8, 3, window=6), 8, 3, window=6)", 0.118206345319034},
    {"flatten(x)[4:28]", 0.118206345319034}, // the same
    {"istft(reshape(x, 2, 4, 4), 6, 2, cut=2)", -0.313476496126677},
    {"sort(flatten(x))", -0.3252571751160524},
    {"sort(floor(2*x) + x)", 0.016393523680453437},
    {"gather(flatten(x), argsort(flatten(x))) * argsort(flatten(x))", -10.153809925130169},
    {"ctc(reshape(x, 4, 8), stack(1, 1, 3), 6 + y, 3)", -1.501466255769908}, // y is 0, 1 or 2
    {"ctc(x[0, :3] |> upsample(3), stack(0, y), blank=2)", -1.336801559988647},
    {"ctc(reshape(x, 4, 8)*3, stack(3, 2, 3, 1), n_l=y)", -3.222222576735342},
    {"sort_by(x, -x)", -0.629440863047951},
    {"sort_by(reshape(arange(32), 2, 4, 4), x)*x", -0.197930465267836},
    {"[where(s == s, clamp(s, -1, 0.5), -1) for s in [sort(where(x > 0.5, log(-x), x))]][0]",
     1.02460140832219}, // NaN last
    {"unit(x, channel)", -0.108823407745048},
    {"unit(x, space)", 0.0671464793960739},
    {"cosine_similarity(x, x^2 + 0.1, channel)", -0.860171620740759},
    {"norm(x, 1e-6, over=channel)", 0.367711783818211},
    {"norm(x, over=axis(1), keep=true)", -0.171901439003032},
    {"x[0]*argtopk(x[0], 3)[:, :1]", -0.0470100118766601},
    {"sinc(3*x)", -0.329221765092115},
    {"take_along(x[0], argtopk(x[0], 3), at=1)", -0.145909007792286},
    {"topk(x, 3)", -0.047627907927235813},
    {"median(flatten(x))", 0.019829793473488223},
    {"quantile(x, 0.3)", -0.068859562884135472},
    {"x + grad(norm(relu(x - 10)) + cosine_similarity(relu(x - 10), x), x)",
     0.174749872701247}, // that of x
    {"x + grad(norm(grad(norm(relu(x - 10)), x)) + std(relu(x - 10)), x)",
     0.174749872701247}, // where the norm is 0
    {"x[0]*quantile(x[:1], 0.3)", -0.335245903612796},
    {"x[0]*unsqueeze(quantile(x[0], 0.3), 0)", -0.335245903612796}, // the same
    {"gather(reshape(x, 8, 4), floor(8*abs(flatten(x)[:6])))", 0.47003688363288726},
    {"scatter(reshape(x, 8, 4)[:6], floor(8*abs(flatten(x)[:6])), 9)", 0.020178137206606883},
    {"affine_grid(x[0, :2, :3], [5, 3])", -0.45166117079011953},
    {"affine_grid(x[0, :2, :3], [5, 3], align_corners=true)", -0.72691983642056801},
    {"grid_sample(x, 3*affine_grid(x[0, :2, :3], [5, 3]), padding_mode=\"zeros\")",
     -0.024733073052172583},
    {"grid_sample(x, 3*affine_grid(x[0, :2, :3], [5, 3], align_corners=true), "
     "padding_mode=\"zeros\", "
     "align_corners=true)",
     0.011819368490185},
    {"grid_sample(x, 3*affine_grid(x[0, :2, :3], [5, 3]), padding_mode=\"border\")",
     -0.001221092454859074},
    {"grid_sample(x, 3*affine_grid(x[0, :2, :3], [5, 3], align_corners=true), "
     "padding_mode=\"border\", "
     "align_corners=true)",
     0.30144977382949872},
    {"grid_sample(x, 3*affine_grid(x[0, :2, :3], [5, 3]), padding_mode=\"reflection\")",
     0.29710493236070501},
    {"grid_sample(x, 3*affine_grid(x[0, :2, :3], [5, 3], align_corners=true), "
     "padding_mode=\"reflection\", "
     "align_corners=true)",
     1.0777505344697373},
    {"affine_grid(stack(stack(1, 0, 0), stack(0, 1, 0)), [4, 4], align_corners=true) + 0*k[0]\n"
     "  r = grad(sum(grid_sample(x, r, padding_mode=\"border\", align_corners=true)), r)",
     0.966691364709188},
    {"affine_grid(stack(stack(1, 0, 0), stack(0, 1, 0)), [4, 4], align_corners=true) + 0*k[0]\n"
     "  r = grad(sum(grid_sample(x, r, padding_mode=\"reflection\", align_corners=true)), r)",
     0.966691364709188},
    {"affine_grid(x[0, :3, :4], [2, 3, 2])", 0.22354010579434458},
    {"grid_sample(reshape(x, 4, 2, 2, 2), 2*affine_grid(x[0, :3, :4], [2, 3, 2]), "
     "padding_mode=\"zeros\")",
     -0.098971348051602917},
    {"grid_sample(reshape(x, 4, 2, 2, 2), 2*affine_grid(x[0, :3, :4], [2, 3, 2], "
     "align_corners=true), padding_mode=\"zeros\", align_corners=true)",
     -0.094535199798810948},
    {"grid_sample(reshape(x, 4, 2, 2, 2), 2*affine_grid(x[0, :3, :4], [2, 3, 2]), "
     "padding_mode=\"border\")",
     -1.5824649927198726},
    {"grid_sample(reshape(x, 4, 2, 2, 2), 2*affine_grid(x[0, :3, :4], [2, 3, 2], "
     "align_corners=true), padding_mode=\"reflection\", align_corners=true)",
     -0.15992369728551092},
    {"warp(reshape(x, 2, 2, 2, 4), x[0, :3, :3])", 0.17480279755903383},
    {"rotate(reshape(x, 1, 4, 8), 0.4)", 0.67183735691753976},
    {"zoom(x, 1.3)", 0.58496710080104075},
    {"sliced_wasserstein(flatten(x), flatten(x)^2, 3)", -0.11117030146997088},
    {"brightness(x)", 0.21938527491040299},
    {"saturation(x)", -0.1066131259274537},
    {"contrast(x)", 0.19659263406054653},
    {"translation(x, 0.4)", -0.30370706677490189},
    {"cutout(x)", 0.73576145802942972},
    {"diffaug(x)", 0.11818004985061387},
    {"random_crop(x, [3, 2])", 0.5277242844165748},
    {"psnr(x, x^2)", -1.9213799784855077},
    {"ssim(x, x^2, 1, window=3, spread=0.8)", -0.06644011690617549},
};

static void layers_have_their_values_and_gradients(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        check_loss(LAYER, layers[i]);
}

// --- losses and penalties: of a small discriminator, data x and fakes f --------------------------

#define LOSS                                                                                       \
    "model m\ndata x : float(2, 4), f : float(2, 4), y : label(3)\nopt = sgd(lr=0.1)\n"            \
    "net D(x: [2, 4]) -> [] = x |> flatten |> dense(3) |> tanh |> dense(1) |> squeeze\n"           \
    "net C(x: [2, 4]) -> [3] = x |> flatten |> dense(3)\n"                                         \
    "fn energy(d) = softplus(-d(x)) * d(f)\n"                                                      \
    "step { update D minimize %s using opt; update C minimize cross_entropy(C(x), y) using opt "   \
    "}\n"

static const Row losses[] = {
    {"bce(D(x), 0.9)", 0.40280176170559656},
    {"huber(D(x), 0.5, 0.3)", 0.265011655058225},
    {"smooth_l1(D(x), D(f), 0.5)", 0.437123546057898},
    {"charbonnier(D(x), D(f), eps=0.01)", 0.625763375367241},
    {"kl_normal(D(x), D(f))", 2.63931126592279},
    {"logistic(D(x), D(f))", 2.0764278950267183},
    {"non_saturating(D(f))", 0.19078302526046753},
    {"saturating(D(f))", -1.8148914148771844},
    {"least_squares(D(x), D(f))", 1.7269210759763789},
    {"least_squares_g(D(f))", 0.26770631581266358},
    {"hinge(D(x), D(f))", 2.8086740063061919},
    {"wasserstein(D(x), D(f))", 0.21145557405609217},
    {"wasserstein_g(D(f))", -1.6241083896167168},
    {"relativistic(D(x), D(f))", 0.887832000115228},
    {"relativistic_average(D(x), D(f))", 0.84269265905362123},
    {"l1(D(x), D(f))", 0.62518378927036278},
    {"gradient_penalty(D, x, f)", 0.17773742223409489},
    {"dragan(D, x)", 0.056996599269730858},
    {"mean(sum([norm2(g) for g in per_sample_grad(D, energy)])^2)", 2.245876536458598},
    {"zero_penalty(D(x), x)", 1.009930044146937},
    {"zero_penalty(D(f), f)", 0.87696252363311855},
    // the greatest of a batch
    {"max(D(x)) - min(D(f), batch) + logsumexp(D(x), batch)", 4.08064936683579},
    {"where(1/stop(min(relu(-abs(D(x))))) > 0, 1, 2)*mean(D(x))", 1.41265281556062}, // no -0
    {"sum(softmax(D(x), batch)*D(f))", 1.62838927039492},
    {"mean(max(D(x)*x, [batch, channel]))", 1.61718157204014},
    {"sum((arange(batch_size) == argmax(D(x), batch))*all_gather(D(f)))", 1.68966669968579},
    {"mean(D(x))*argmax(x, all)", 4.23795844668187},
    {"mean(D(x)*sum(argmax(x, [batch, channel])))", 12.7138753400456},
    // gradients to a weight, differentiated again
    {"bce(D(x), 1) + norm(grad(bce(D(x), 1), params(D)[0])) / (norm(grad(non_saturating(D(f)), "
     "params(D)[0])) + 1e-4) * non_saturating(D(f))",
     0.5759142002703332},
};

static void losses_have_their_values_and_gradients(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
        check_loss(LOSS, losses[i]);
}

// --- gradients of each sample, to all kinds of weights
// --------------------------------------------

#define EACH                                                                                       \
    "model m\ndata x : float(2, 4, 4), y : label(3)\n"                                             \
    "net D(x: [2, 4, 4], y: label(3)) -> [] {\n"                                                   \
    "  h = x |> conv(4, k=3, stride=2, pad=1, groups=2) |> group_norm(2) |> tanh\n"                \
    "  h = h |> conv_transpose(3, k=2, stride=2)\n"                                                \
    "  concat(flatten(h), embed(4)(y)) |> dense(1) |> squeeze\n}\n"                                \
    "fn loss(d) = softplus(-d(x, y))\n"                                                            \
    "step { update D minimize %s using sgd(lr=0.1) }\n"

static const Row each_sample[] = {
    {"mean(sum([norm2(g) for g in per_sample_grad(D, loss)]))", 0.0012183514336059663},
    {"sum([sum(mean(g, batch)^2) for g in per_sample_grad(D, loss)])",
     0.001009456704601948}, // that of their mean
};

static void gradients_of_each_sample_have_their_values_and_gradients(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof each_sample / sizeof *each_sample; i++)
        check_loss(EACH, each_sample[i]);
}

// --- spectra: of maps x and f, whose spectra numpy's transforms make too -------------------------

#define SPECTRUM                                                                                   \
    "model m\ndata x : float(2, 6, 6), f : float(2, 6, 6), k : float(256)\nopt = sgd(lr=0.1)\n"    \
    "net N(f: [2, 6, 6]) { param at : [2, 6, 6] = 0; f + at }\n"                                   \
    "fn told(r) = mean(sum((flatten(r) - k[:prod(shape(r))])^2, sample))\n"                        \
    "step { f = N(f); update N minimize %s using opt }\n"

static const Row spectra[] = {
    {"told(rfft(f))", 115.075280525983},
    {"told(rfft(f[:, :, :5]))", 76.521803952474329},
    {"told(irfft(rfft(f)^2))", 87.861752914433794},
    {"told(irfft(rfft(f)^2, 7))", 99.676484450421313},
    {"told(ifft(fft(stack(f, x))^2))", 243.73843852726543},
    {"told(rfftn(f))", 515.5895738021253},
    {"told(irfftn(rfftn(f)^2))", 407.6872447084828},
    {"told(irfftn(rfftn(f[:, :, :5])^2, 5))", 288.43452780199925},
    {"told(irfftn(rfftn(reshape(f, 1, 3, 4, 6))^2))", 886.4719694750428},
    {"told(stft(f[0] |> flatten, 16, 4))", 136.917096053815},
    {"told(sqrt(sum(stft(flatten(f), 16, 8)^2, axis(0))) |> mel_bands(3, 8000, low=100))",
     8.61541553346282},
    {"told(stft(flatten(f), 16, 6, window=9))", 146.535434379869},
    {"told(stft(flatten(f)[:61], 12, 5, window=10))", 121.797231110366},
    {"told(stft(flatten(f), 15, 7))", 164.068902762234},
    {"told(spectrogram(flatten(f), 16, 8, eps=1e-3))", 149.823064047384},
    {"stft_loss(flatten(x), flatten(f), 16, 4, window=10, eps=1e-3)", 1.40549824010003},
    {"told(power_spectrum(f))", 2.237928034060221},
    {"spectrum_loss(x, f)", -13.557536999393673},
    {"spectrum_loss(x, f, spread=0.5)", -9.1880067797086973},
    {"focal_frequency_loss(x, f, alpha=0)", 0.64783249746934657},
    {"sum(soft_histogram(f, 5, -1, 1)*k[:5])", -2.2162065955885057},
    {"histogram_loss(x, f, bins=8)", -2.9747621018965389},
};

static const Row focused[] = {
    // weights of frequencies that are not differentiated
    {"focal_frequency_loss(x, f)", 0.45004264249659925},
    {"focal_frequency_loss(x, f, alpha=2)", 0.34686799362469173},
};

static void spectra_have_their_values_and_gradients(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof spectra / sizeof *spectra; i++)
        check_loss(SPECTRUM, spectra[i]);
    for (size_t i = 0; i < sizeof focused / sizeof *focused; i++)
        check_row(SPECTRUM, focused[i], false);
}

// Spectrum rings in the language equal those of `ganrun eval`.
static void power_spectrum_rings_equal_those_of_eval(void **state) {
    static const char text[] =
        "model m\ndata x : float(1, %u, %u)\n"
        "net N(x) { param at : [1] = 0; x + at }\n"
        "step { update N minimize mean(power_spectrum(N(x))[:, %u:%u]) using "
        "sgd() }\n";
    (void)state;
    for (uint32_t side = 7; side <= 12; side += 5) {
        for (uint32_t ring = 0; ring < spectrum_rings(side); ring++) {
            enum { BATCH = 4, MOST = BATCH * 144 };
            Arena a = empty;
            Trial t;
            double x[MOST], mean[8];
            float maps[MOST];
            uint32_t n = BATCH * side * side;
            Str model = str_format(&a, text, side, side, ring, ring + 1);
            trial_open(&t, &a, &(TrialOptions){.name = "rings", .text = model, .batch = BATCH});
            trial_step(&t);
            assert_int_equal(exec_slot_get(t.exec, trial_slot(&t, "x"), x, n), GAN_OK);
            double got = t.loss[0];
            trial_close(&t);
            for (uint32_t i = 0; i < n; i++)
                maps[i] = (float)x[i];
            assert_int_equal(spectrum_mean(maps, BATCH, side, mean), GAN_OK);
            if (!(fabs(got / mean[ring] - 1) < 1e-6)) // maps are f32
                fail_msg("side %u, ring %u: %.12g, not %.12g", side, ring, got, mean[ring]);
        }
    }
}

// --- optimizers and schedules: three steps on a bowl ---------------------------------------------

#define BOWL                                                                                       \
    "model m\ndata x : float(3)\nnet N(x: [3]) { param w : [3] = 0; sum((w*x)^2, sample) }\n"      \
    "opt = %s\nstep { update N minimize mean(N(x)) using opt }\n"

static const Row optimizers[] = {
    {"sgd(lr=0.1)", -0.60587626909701142},
    {"sgd(lr=0.1, momentum=0.9)", -0.69388585113010115},
    {"rmsprop(lr=0.01)", -0.859742783437215},
    {"adam(lr=0.1, beta1=0.5)", -1.023114081101737},
    {"adamw(lr=0.1, decay=0.1)", -1.1204907008564207},
    {"lion(lr=0.01, decay=0.1)", -0.6959898440562573},
    {"sgd(lr=milestones(0.2, [1, 2], by=0.5))", -0.678092475137282},
    {"sgd(lr=milestones(0.2, [3]))", -0.56060062277265},
    {"watched(sgd(lr=0.1))", -0.60587626909701142},
    {"clip_norm(0.1, sgd(lr=1))", -0.59791350452665015},
    {"orthogonal_weights(0.1, sgd(lr=1))", 0.0266943139181121},
    {"clip_value(0.1, sgd(lr=1))", -0.96228892431548829},
    {"clip_weights(0.3, sgd(lr=0.1))", 0.22042890055115513},
    {"weight_decay(0.1, sgd(lr=0.1))", -0.58749797725068797},
    {"groups(\"N.w\", freeze(), sgd())", -0.63796179619742288},
    {"optimistic(sgd(lr=0.1, momentum=0.9))", -0.6323641116306524},
    {"extragradient(sgd(lr=0.1))", -0.573075011639698},
    {"lookahead(sgd(lr=0.1), k=2)", -0.5705173392844922},
    {"sgd(lr=ramp(0.1, 0, from=0, to=4))", -0.64658097110813095},
    {"sgd(lr=cosine(0.1, 0, to=4))", -0.65046618885980145},
    {"sgd(lr=cosine(0.1, 0, to=6, at=step + 2, from=2))", -0.65046618885980145}, // the same
    {"sgd(lr=halve(0.1, 2))", -0.65596071649698684},
    {"sgd(lr=warmup(0.1, 3))", -0.58520739893992868},
    {"sgd(lr=linear_rate(0.2, of=8))", -0.60587626909701142}, // the batch is 4: as lr=0.1
    {"sgd(lr=sqrt_rate(0.05, of=1))", -0.60587626909701142},
    {"sgd(lr=warmup(linear_rate(0.2, of=8), 3))", -0.58520739893992868},
    {"sgd(lr=half_life(2))", -0.20347849553639558},
    // lists of states, as sgd with momentum 0.9
    {"heavy(0.1)\nfn heavy(lr)(w, g) { state h : [shape(w), []] = 0; h := [0.9*h[0] + g, h[1] + "
     "1]\n"
     "w - lr*h[0]*(h[1] > 0.5) }",
     -0.69388585113010115},
    {"heavy\nfn heavy(w, g) { state h : [shape(w), shape(w)] = 0; h[0] := 0.9*h[1] + g\n"
     "h := reversed(h); w - 0.1*h[1] }",
     -0.69388585113010115},
};

static void optimizers_take_the_expected_steps(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        Arena a = empty;
        Trial t;
        double w[3], got = 0;
        Row row = optimizers[i];
        Str text = str_format(&a, BOWL, row.expr);
        trial_open(&t, &a, &(TrialOptions){.name = row.expr, .text = text, .batch = 4});
        trial_set_weights(&t);
        for (int step = 0; step < 3; step++)
            trial_step(&t);
        assert_int_equal(exec_slot_get(t.exec, trial_slot(&t, "N.w"), w, 3), GAN_OK);
        trial_close(&t);
        for (int k = 0; k < 3; k++)
            got += w[k] * (k + 1);
        if (getenv("BLESS"))
            printf("%.15g\t%s\n", got, row.expr);
        else if (!(fabs(got - row.want) <= 1e-12))
            fail_msg("%s gives %.15g, not %.15g", row.expr, got, row.want);
    }
}

// --- averages and initial values -----------------------------------------------------------------

static void an_averaged_net_follows_its_net(void **state) {
    static const char text[] =
        "model m\ndata x : float(3)\n"
        "net N(x: [3]) { param w : [3] = 0; sum((w*x)^2, sample) }\nnet A = copy(N)\n"
        "step { update N minimize mean(N(x)) using sgd(lr=0.1); ema(A, N, keep=0.9) }\n"
        "sample s = A(normal(3))\n";
    Arena a = empty;
    Trial t;
    double old[3], net[3], now[3];
    (void)state;
    trial_open(&t, &a, &(TrialOptions){.name = "ema", .text = str_c(text), .batch = 4});
    trial_set_weights(&t);
    assert_int_equal(exec_slot_get(t.exec, trial_slot(&t, "A.w"), old, 3), GAN_OK);
    trial_step(&t);
    assert_int_equal(exec_slot_get(t.exec, trial_slot(&t, "A.w"), now, 3), GAN_OK);
    assert_int_equal(exec_slot_get(t.exec, trial_slot(&t, "N.w"), net, 3), GAN_OK);
    trial_close(&t);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(now[i] - (0.9 * old[i] + 0.1 * net[i])) < 1e-15);
}

static const Row spreads[] = {
    // deviation of a weight [64, 32, 2]
    {"gauss(0.02)", 0.02},
    {"trunc_gauss(0.02)", 0.02 * 0.8796256610342398},
    {"spread(0.1)", 0.1 / 1.7320508075688772},
    {"fan_in", 0.125 / 1.7320508075688772},
    {"default_init(same)", 0.125 / 1.7320508075688772},
    {"default_init(equalized)", 1},
    {"glorot", 0.10206207261596577}, // sqrt(2 / ((64 + 32) * 2))
    {"he", 0.17677669529663687},     // sqrt(2 / (32 * 2))
};

static void initial_values_have_the_specified_deviation(void **state) {
    static const char text[] = "model m\ndata x : float(3)\nnet N(x: [3]) { param w : [64, 32, 2] "
                               "= %s; sum(w)*sum(x, sample) }\n"
                               "step { update N minimize mean(N(x)) using sgd() }\n";
    (void)state;
    for (size_t i = 0; i < sizeof spreads / sizeof *spreads; i++) {
        Arena a = empty;
        Trial t;
        double *w = arena_array(&a, double, 4096), sum = 0, square = 0;
        Str model = str_format(&a, text, spreads[i].expr);
        trial_open(&t, &a, &(TrialOptions){.name = spreads[i].expr, .text = model, .batch = 2});
        assert_int_equal(exec_slot_get(t.exec, trial_slot(&t, "N.w"), w, 4096), GAN_OK);
        trial_close(&t);
        for (int k = 0; k < 4096; k++) {
            sum += w[k];
            square += w[k] * w[k];
        }
        double mean = sum / 4096, sd = sqrt(square / 4096 - mean * mean), want = spreads[i].want;
        if (!(fabs(sd / want - 1) < 0.05 && fabs(mean) < 0.05 * want))
            fail_msg("%s: deviation %g, not %g; mean %g", spreads[i].expr, sd, want, mean);
    }
}

// w w^T for few rows, w^T w for few columns: gain^2 on the diagonal, 0 elsewhere.
static void check_orthogonal(Arena a, uint32_t rows, uint32_t columns, Dtype real, double most) {
    static const char text[] = "model m\ndata x : float(3)\nnet N(x: [3]) { param w : [%u, %u, 2] "
                               "= orthogonal(gain=3); sum(w)*sum(x, sample) }\n"
                               "step { update N minimize mean(N(x)) using sgd() }\n";
    Trial t;
    uint32_t n = rows * columns, few = rows < columns ? rows : columns;
    double *w = arena_array(&a, double, n);
    Str model = str_format(&a, text, rows, columns / 2);
    trial_open(&t, &a,
               &(TrialOptions){.name = "orthogonal", .text = model, .batch = 2, .real = real});
    assert_int_equal(exec_slot_get(t.exec, trial_slot(&t, "N.w"), w, n), GAN_OK);
    trial_close(&t);
    for (uint32_t r = 0; r < few; r++) {
        for (uint32_t s = 0; s < few; s++) {
            double sum = 0;
            for (uint32_t k = 0; k < n / few; k++)
                sum += rows <= columns ? w[r * columns + k] * w[s * columns + k]
                                       : w[k * columns + r] * w[k * columns + s];
            if (!(fabs(sum / 9 - (r == s)) < most))
                fail_msg("orthogonal [%u, %u]: product %u %u is %g", rows, columns, r, s, sum);
        }
    }
}

// Square matrices are the ill-conditioned ones. Three are iterated on as m m^T; the last two have
// rows enough to be orthogonalized in blocks.
static void orthogonal_weights_are_orthogonal(void **state) {
    static const uint32_t sides[][2] = {{8, 8},   {6, 20},   {20, 6},    {1, 4},
                                        {64, 64}, {40, 48},  {32, 64},   {4, 200},
                                        {200, 4}, {24, 320}, {202, 202}, {460, 202}};
    (void)state;
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        check_orthogonal(empty, sides[i][0], sides[i][1], DtF64, 1e-10);
        check_orthogonal(empty, sides[i][0], sides[i][1], DtF32, 1e-5);
    }
}

// The lengths of a weight-normalized weight are initialized to its rows' norms, also in a copy.
static void an_initial_value_may_read_earlier_weights(void **state) {
    static const char text[] = "model m\ndata x : float(5)\nnet N(x: [5]) -> [3] {\n"
                               "  param w : [3, 5] = fan_in\n  param g : [3] = norms(2*w)\n"
                               "  einsum(\"cn,n->c\", w, x)*g |> dense(3, reparam=weight_norm)\n}\n"
                               "fn norms(w) = sqrt(sum(w^2, axis(1)))\nnet M = copy(N)\n"
                               "step { update N minimize mean(N(x)) using sgd(); ema(M, N, 0.9) }\n"
                               "sample s = M(x)\n";
    static const struct {
        const char *w, *g;
        uint32_t n;
        double times;
    } rows[] = {{"N.w", "N.g", 5, 2},
                {"M.w", "M.g", 5, 2},
                {"N.dense.0.w", "N.dense.0.g", 3, 1},
                {"M.dense.0.w", "M.dense.0.g", 3, 1}};
    Arena a = empty;
    Trial t;
    (void)state;
    trial_open(&t, &a, &(TrialOptions){.name = "begun", .text = str_c(text), .batch = 2});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double w[15], g[3];
        uint32_t n = rows[i].n;
        assert_int_equal(exec_slot_get(t.exec, trial_slot(&t, rows[i].w), w, 3 * n), GAN_OK);
        assert_int_equal(exec_slot_get(t.exec, trial_slot(&t, rows[i].g), g, 3), GAN_OK);
        for (uint32_t r = 0; r < 3; r++) {
            double sum = 0;
            for (uint32_t k = 0; k < n; k++)
                sum += w[r * n + k] * w[r * n + k];
            if (!(fabs(g[r] - rows[i].times * sqrt(sum)) < 1e-12 && sum > 0))
                fail_msg("%s[%u] is %g, not %g", rows[i].g, r, g[r], rows[i].times * sqrt(sum));
        }
    }
    trial_close(&t);
}

// A penalty between data of a label and samples of a drawn class.
static void a_mixture_of_data_and_samples_may_have_the_label_of_the_data(void **state) {
    static const char text[] =
        "model m\ndata x : float(4), y : label(3)\n"
        "net G(z: [3], c: label(3)) -> [4] = concat(z, one_hot(c)) |> dense(4)\n"
        "net D(x: [4], c: label(3)) -> [] = concat(x, one_hot(c)) |> dense(1) |> squeeze\n"
        "step {\nc = categorical(3)\nfake = G(normal(3), c)\nfn by_label(x) = D(x, y)\n"
        "update D minimize wasserstein(D(x, y), D(fake, c)) + gradient_penalty(by_label, x, fake) "
        "using sgd()\n"
        "update G minimize wasserstein_g(D(fake, c)) using sgd()\n}\n";
    Arena a = empty;
    (void)state;
    trial_module(&a, &(TrialOptions){.name = "m", .text = STR(text), .batch = 2});
}

// Of a critic, and of its generator: none is taken for one whose signs were exchanged.
static void losses_of_both_sides_are_told_from_exchanged_ones(void **state) {
    static const char *const pair[][2] = {
        {"logistic(r, f)", "non_saturating(s)"},
        {"logistic(r, f)", "saturating(s)"},
        {"bce(r, 0.9) + bce(f, 0.1)", "bce(s, 1)"},
        {"bce(r, 0) + bce(f, 1)", "bce(s, 0)"},
        {"least_squares(r, f)", "least_squares_g(s)"},
        {"mse(r, 1) + mse(f, -1)", "mse(s, 0)"}, // Mao et al. 2017, eq. 8
        {"hinge(r, f)", "wasserstein_g(s)"},
        {"wasserstein(r, f) + 1e-3*mean(r^2) + 10*zero_penalty(D(x), x)", "wasserstein_g(s)"},
        {"relativistic(r, f)", "relativistic(s, D(x))"},
        {"relativistic_average(r, f)", "relativistic_average(s, D(x))"},
        {"mean(relu(1 + r)) - mean(min(f, 1))", "mean(s)"}, // an energy, low on data
        {"mse(r, 10) + mse(f, 9)", "mse(s, 10)"},
        {"mse(r, 0.3) + mse(f, 0.2)", "mse(s, 0.3)"},
        {"hinge(r, f) using sgd()\n" // and both kept small, at times
         "every 4 { update D minimize 1e-3*(mean(D(x)^2) + mean(D(G(normal(3)))^2)) using sgd() }\n"
         "update D minimize hinge(D(x), D(G(normal(3))))",
         "wasserstein_g(s)"},
    };
    Arena a = empty;
    (void)state;
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
        Arena scratch = a;
        Str text = str_format(&scratch,
                              "model m\ndata x : float(4)\nnet G(z: [3]) -> [4] = z |> dense(4)\n"
                              "net D(x: [4]) -> [] = x |> dense(1) |> squeeze\nstep {\n"
                              "r = D(x)\nf = D(G(normal(3)))\nupdate D minimize %s using sgd()\n"
                              "s = D(G(normal(3)))\nupdate G minimize %s using sgd()\n}\n",
                              pair[i][0], pair[i][1]);
        trial_module(&scratch, &(TrialOptions){.name = pair[i][0], .text = text, .batch = 2});
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_have_their_values_and_gradients),
        cmocka_unit_test(losses_have_their_values_and_gradients),
        cmocka_unit_test(gradients_of_each_sample_have_their_values_and_gradients),
        cmocka_unit_test(spectra_have_their_values_and_gradients),
        cmocka_unit_test(power_spectrum_rings_equal_those_of_eval),
        cmocka_unit_test(optimizers_take_the_expected_steps),
        cmocka_unit_test(an_averaged_net_follows_its_net),
        cmocka_unit_test(initial_values_have_the_specified_deviation),
        cmocka_unit_test(orthogonal_weights_are_orthogonal),
        cmocka_unit_test(an_initial_value_may_read_earlier_weights),
        cmocka_unit_test(losses_of_both_sides_are_told_from_exchanged_ones),
        cmocka_unit_test(a_mixture_of_data_and_samples_may_have_the_label_of_the_data),
    };
    return ARENA_CASES(tests, 0);
}

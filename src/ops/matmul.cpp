#include "ops/matmul.h"

#include "device/torch_headers.h"
#include "device/work_queue.h"
#include "ops/parallel_gemm.h"

namespace lmtrain {
namespace {

// With fewer rows or columns, packing the larger operand costs more than it saves.
constexpr int64_t kFew = 16;

template <class T>
void multiply(const CpuGemm<T>& gemm, const at::Tensor& a_MK, const at::Tensor& b_KN,
              const at::Tensor& c_MN) {
  if (b_KN.size(0) == 0) {
    c_MN.zero_();
    return;
  }
  parallel_gemm<T>(gemm, {a_MK.size(0), gemm_matrix<T>(a_MK)}, b_KN,
                   {{elements<T>(c_MN), c_MN.stride(0)}});
}

template <class T>
at::Tensor product(const CpuGemm<T>& gemm, const at::Tensor& a_MK, const at::Tensor& b_KN) {
  at::Tensor c_MN = at::empty({a_MK.size(0), b_KN.size(1)}, a_MK.options());
  multiply(gemm, a_MK, b_KN, c_MN);
  return c_MN;
}

// Whether the transposed product b^T a^T is faster. Both operands are contiguous along the result,
// so either can be the right one, which costs more to pack: the narrower should be.
bool is_faster_transposed(const at::Tensor& a_MK, const at::Tensor& b_KN) {
  const int64_t rows = a_MK.size(0), terms = a_MK.size(1), columns = b_KN.size(1);
  return a_MK.stride(0) == 1 && b_KN.stride(1) == 1 && (columns - rows) * terms > rows * columns;
}

// Whether rows are contiguous, or columns, of each matrix of a batch.
bool has_a_contiguous_side(const at::Tensor& x) {
  const auto is_contiguous = [&](int64_t row, int64_t column) {
    return x.stride(column) == 1 && x.stride(row) >= x.size(column);
  };
  return is_contiguous(-2, -1) || is_contiguous(-1, -2);
}

// Whether our product is to be taken, by the right operand and the rows of the left one.
bool is_worth_packing(int64_t rows, const at::Tensor& b) {
  return std::min(rows, b.size(-1)) >= kFew && has_a_contiguous_side(b);
}

// Calls f(our product for the dtype of a) if that product is to be taken. Matrices are the last
// dimensions.
template <class F>
void with_gemm(const at::Tensor& a, const at::Tensor& b, const F& f) {
  if (!has_cpu_kernel(a) || !is_worth_packing(a.size(-2), b) || !has_a_contiguous_side(a)) return;
  on_cpu(a, [&]<class T>(T) {
    if (const CpuGemm<T>* gemm = fastest_cpu_gemm<T>()) f(*gemm);
  });
}

// Whether rows suffice for all threads, with at most kMostGroups groups of columns.
template <class T>
bool has_rows_for_threads(const CpuGemm<T>& gemm, int64_t rows) {
  constexpr int64_t kMostGroups = 2;
  return groups_for_threads(rows, gemm.tile_rows) <= kMostGroups;
}

// Returns our product if it is to be taken; else null.
template <class T>
const CpuGemm<T>* fusing_gemm(int64_t rows, const at::Tensor& b_KN) {
  return is_worth_packing(rows, b_KN) && b_KN.size(0) > 0 ? fastest_cpu_gemm<T>() : nullptr;
}

}  // namespace

at::Tensor as_rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}).contiguous(); }

at::Tensor in_shape_of(const at::Tensor& x, const at::Tensor& y_NO) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = y_NO.size(1);
  return y_NO.view(sizes);
}

Fp32Sums::Fp32Sums() {
  at::Context& context = at::globalContext();
  const auto rounds = [](at::CuBLASReductionOption option) {
    return option == at::CuBLASReductionOption::AllowReducedPrecisionWithSplitK;
  };
  const auto splits = [](at::CuBLASReductionOption option) {
    return option != at::CuBLASReductionOption::DisallowReducedPrecisionDisallowSplitK;
  };
  const at::CuBLASReductionOption bf16 = context.allowBF16ReductionCuBLAS();
  const at::CuBLASReductionOption fp16 = context.allowFP16ReductionCuBLAS();
  bf16_rounds_ = rounds(bf16);
  bf16_splits_ = splits(bf16);
  fp16_rounds_ = rounds(fp16);
  fp16_splits_ = splits(fp16);
  context.setAllowBF16ReductionCuBLAS(false, bf16_splits_);
  context.setAllowFP16ReductionCuBLAS(false, fp16_splits_);
}

Fp32Sums::~Fp32Sums() {
  at::Context& context = at::globalContext();
  context.setAllowBF16ReductionCuBLAS(bf16_rounds_, bf16_splits_);
  context.setAllowFP16ReductionCuBLAS(fp16_rounds_, fp16_splits_);
}

at::Tensor product(const at::Tensor& a_MK, const at::Tensor& b_KN) {
  at::Tensor c_MN;
  with_gemm(a_MK, b_KN, [&](const auto& gemm) {
    c_MN = is_faster_transposed(a_MK, b_KN) ? product(gemm, b_KN.t(), a_MK.t()).t().contiguous()
                                            : product(gemm, a_MK, b_KN);
  });
  return c_MN.defined() ? c_MN : at::mm(a_MK, b_KN);
}

template <class T>
void visit_all(const TileFunction<T>& function, const at::Tensor& x) {
  const int64_t width = x.size(1);
  parallel_for_queued(x.size(0), grain_rows(width), [&](int64_t begin, int64_t end) {
    function.visit({begin, 0, end - begin, width}, elements<T>(x) + begin * x.stride(0),
                   x.stride(0));
  });
}

template <class T>
at::Tensor product_of(const Prologue<T>& a, int64_t rows, const at::Tensor& b_KN) {
  const CpuGemm<T>* gemm = fusing_gemm<T>(rows, b_KN);
  // Else the prologue would compute them for each of many groups of columns.
  if (gemm != nullptr && has_rows_for_threads(*gemm, rows)) {
    at::Tensor c_MN = at::empty({rows, b_KN.size(1)}, b_KN.options());
    parallel_gemm<T>(*gemm, {rows, {nullptr, 0, 1}, &a}, b_KN,
                     {{elements<T>(c_MN), c_MN.stride(0)}});
    return c_MN;
  }
  const at::Tensor a_MK = at::empty({rows, b_KN.size(0)}, b_KN.options());
  visit_all(a, a_MK);
  return product(a_MK, b_KN);
}

template <class T>
void product_into(const at::Tensor& a_MK, const at::Tensor& b_KN, const Epilogue<T>& c) {
  if (const CpuGemm<T>* gemm = fusing_gemm<T>(a_MK.size(0), b_KN);
      gemm != nullptr && has_a_contiguous_side(a_MK)) {
    parallel_gemm<T>(*gemm, {a_MK.size(0), gemm_matrix<T>(a_MK)}, b_KN, {{}, &c});
    return;
  }
  visit_all(c, product(a_MK, b_KN));
}

template void visit_all(const TileFunction<float>&, const at::Tensor&);
template void visit_all(const TileFunction<Bf16>&, const at::Tensor&);
template at::Tensor product_of(const Prologue<float>&, int64_t, const at::Tensor&);
template at::Tensor product_of(const Prologue<Bf16>&, int64_t, const at::Tensor&);
template void product_into(const at::Tensor&, const at::Tensor&, const Epilogue<float>&);
template void product_into(const at::Tensor&, const at::Tensor&, const Epilogue<Bf16>&);

void product_into(const at::Tensor& a_MK, const at::Tensor& b_KN, at::Tensor c_MN) {
  bool done = false;
  with_gemm(a_MK, b_KN, [&](const auto& gemm) {
    multiply(gemm, a_MK, b_KN, c_MN);
    done = true;
  });
  if (!done) at::mm_out(c_MN, a_MK, b_KN);
}

void product_into(const at::Tensor& a_MK, const at::Tensor& b_KN, at::Tensor c_MN,
                  const VisitRows& visit) {
  bool done = false;
  with_gemm(a_MK, b_KN, [&]<class T>(const CpuGemm<T>& gemm) {
    if (b_KN.size(0) == 0 || !is_one_block(gemm, b_KN)) return;
    if (!has_rows_for_threads(gemm, a_MK.size(0))) return;
    parallel_gemm<T>(gemm, {a_MK.size(0), gemm_matrix<T>(a_MK)}, b_KN,
                     {{elements<T>(c_MN), c_MN.stride(0)}, nullptr, &visit});
    done = true;
  });
  if (done) return;
  product_into(a_MK, b_KN, c_MN);
  parallel_for_queued(c_MN.size(0), grain_rows(c_MN.size(1)), visit);
}

at::Tensor batched_product(const at::Tensor& a_BMK, const at::Tensor& b_BKN) {
  at::Tensor c_BMN;
  with_gemm(a_BMK, b_BKN, [&](const auto& gemm) {
    const int64_t count = a_BMK.size(0);
    c_BMN = at::empty({count, a_BMK.size(1), b_BKN.size(2)}, a_BMK.options());
    const auto multiply_some = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) multiply(gemm, a_BMK[i], b_BKN[i], c_BMN[i]);
    };
    // Whole products to a thread where there are enough; else the threads share each.
    if (count < at::get_num_threads()) {
      multiply_some(0, count);
    } else {
      parallel_for_queued(count, 1, multiply_some);
    }
  });
  return c_BMN.defined() ? c_BMN : at::bmm(a_BMK, b_BKN);
}

}  // namespace lmtrain

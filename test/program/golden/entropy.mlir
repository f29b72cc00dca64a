module @entropy {
  func.func public @main(%arg0: tensor<4x3xf32>, %arg1: tensor<4xi32>) -> (tensor<f32>, tensor<4x3xf32>) {
    %0 = "func.call"(%arg0) {callee = @relu} : (tensor<4x3xf32>) -> tensor<4x3xf32>
    %1 = "func.call"(%0, %arg1) {callee = @softmaxCrossEntropy} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<4xf32>
    %2 = "stablehlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
    %3 = "stablehlo.reduce"(%1, %2) ({
      ^bb0(%a4: tensor<f32>, %a5: tensor<f32>):
        %6 = "stablehlo.add"(%a4, %a5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%6) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    %7 = "stablehlo.constant"() {value = dense<4.0> : tensor<f32>} : () -> tensor<f32>
    %8 = "stablehlo.divide"(%3, %7) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %9 = "stablehlo.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
    %10 = "stablehlo.divide"(%9, %7) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %11 = "stablehlo.broadcast_in_dim"(%10) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4xf32>
    %12 = "func.call"(%0, %arg1, %11) {callee = @softmaxCrossEntropyGrad} : (tensor<4x3xf32>, tensor<4xi32>, tensor<4xf32>) -> tensor<4x3xf32>
    %13 = "stablehlo.broadcast_in_dim"(%2) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x3xf32>
    %14 = "stablehlo.compare"(%0, %13) {comparison_direction = #stablehlo<comparison_direction LE>} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xi1>
    %15 = "stablehlo.select"(%14, %13, %12) : (tensor<4x3xi1>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    "func.return"(%8, %15) : (tensor<f32>, tensor<4x3xf32>) -> ()
  }
  func.func private @relu(%arg0: tensor<4x3xf32>) -> tensor<4x3xf32> {
    %0 = "stablehlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
    %1 = "stablehlo.broadcast_in_dim"(%0) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x3xf32>
    %2 = "stablehlo.maximum"(%arg0, %1) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    "func.return"(%2) : (tensor<4x3xf32>) -> ()
  }
  func.func private @stopGradient(%arg0: tensor<4x1xf32>) -> tensor<4x1xf32> {
    "func.return"(%arg0) : (tensor<4x1xf32>) -> ()
  }
  func.func private @softmaxCrossEntropy(%arg0: tensor<4x3xf32>, %arg1: tensor<4xi32>) -> tensor<4xf32> {
    %0 = "stablehlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
    %1 = "stablehlo.reduce"(%arg0, %0) ({
      ^bb0(%a2: tensor<f32>, %a3: tensor<f32>):
        %4 = "stablehlo.maximum"(%a2, %a3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%4) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>
    %5 = "stablehlo.reshape"(%1) : (tensor<4xf32>) -> tensor<4x1xf32>
    %6 = "func.call"(%5) {callee = @stopGradient} : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %7 = "stablehlo.is_finite"(%6) : (tensor<4x1xf32>) -> tensor<4x1xi1>
    %8 = "stablehlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
    %9 = "stablehlo.broadcast_in_dim"(%8) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x1xf32>
    %10 = "stablehlo.select"(%7, %6, %9) : (tensor<4x1xi1>, tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
    %11 = "stablehlo.broadcast_in_dim"(%10) {broadcast_dimensions = array<i64: 0, 1>} : (tensor<4x1xf32>) -> tensor<4x3xf32>
    %12 = "stablehlo.subtract"(%arg0, %11) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %13 = "stablehlo.exponential"(%12) : (tensor<4x3xf32>) -> tensor<4x3xf32>
    %14 = "stablehlo.reduce"(%13, %8) ({
      ^bb0(%a15: tensor<f32>, %a16: tensor<f32>):
        %17 = "stablehlo.add"(%a15, %a16) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%17) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>
    %18 = "stablehlo.reshape"(%14) : (tensor<4xf32>) -> tensor<4x1xf32>
    %19 = "stablehlo.log"(%18) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %20 = "stablehlo.reshape"(%19) : (tensor<4x1xf32>) -> tensor<4xf32>
    %21 = "stablehlo.gather"(%arg0, %arg1) {dimension_numbers = #stablehlo.gather<offset_dims = [], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<4xf32>
    %22 = "stablehlo.reshape"(%10) : (tensor<4x1xf32>) -> tensor<4xf32>
    %23 = "stablehlo.subtract"(%21, %22) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %24 = "stablehlo.subtract"(%20, %23) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%24) : (tensor<4xf32>) -> ()
  }
  func.func private @softmaxCrossEntropyGrad(%arg0: tensor<4x3xf32>, %arg1: tensor<4xi32>, %arg2: tensor<4xf32>) -> tensor<4x3xf32> {
    %0 = "stablehlo.broadcast_in_dim"(%arg2) {broadcast_dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x3xf32>
    %1 = "stablehlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
    %2 = "stablehlo.reduce"(%arg0, %1) ({
      ^bb0(%a3: tensor<f32>, %a4: tensor<f32>):
        %5 = "stablehlo.maximum"(%a3, %a4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%5) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>
    %6 = "stablehlo.reshape"(%2) : (tensor<4xf32>) -> tensor<4x1xf32>
    %7 = "func.call"(%6) {callee = @stopGradient} : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %8 = "stablehlo.broadcast_in_dim"(%7) {broadcast_dimensions = array<i64: 0, 1>} : (tensor<4x1xf32>) -> tensor<4x3xf32>
    %9 = "stablehlo.subtract"(%arg0, %8) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %10 = "stablehlo.exponential"(%9) : (tensor<4x3xf32>) -> tensor<4x3xf32>
    %11 = "stablehlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
    %12 = "stablehlo.reduce"(%10, %11) ({
      ^bb0(%a13: tensor<f32>, %a14: tensor<f32>):
        %15 = "stablehlo.add"(%a13, %a14) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%15) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>
    %16 = "stablehlo.reshape"(%12) : (tensor<4xf32>) -> tensor<4x1xf32>
    %17 = "stablehlo.broadcast_in_dim"(%16) {broadcast_dimensions = array<i64: 0, 1>} : (tensor<4x1xf32>) -> tensor<4x3xf32>
    %18 = "stablehlo.divide"(%10, %17) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %19 = "stablehlo.broadcast_in_dim"(%arg1) {broadcast_dimensions = array<i64: 0>} : (tensor<4xi32>) -> tensor<4x3xi32>
    %20 = "stablehlo.iota"() {iota_dimension = 1 : i64} : () -> tensor<4x3xi32>
    %21 = "stablehlo.compare"(%19, %20) {comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<4x3xi32>, tensor<4x3xi32>) -> tensor<4x3xi1>
    %22 = "stablehlo.convert"(%21) : (tensor<4x3xi1>) -> tensor<4x3xf32>
    %23 = "stablehlo.subtract"(%18, %22) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %24 = "stablehlo.multiply"(%23, %0) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    "func.return"(%24) : (tensor<4x3xf32>) -> ()
  }
}

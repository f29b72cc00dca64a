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
  func.func private @softmaxCrossEntropy(%arg0: tensor<4x3xf32>, %arg1: tensor<4xi32>) -> tensor<4xf32> {
    %0 = "stablehlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
    %1 = "stablehlo.reduce"(%arg0, %0) ({
      ^bb0(%a2: tensor<f32>, %a3: tensor<f32>):
        %4 = "stablehlo.maximum"(%a2, %a3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%4) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>
    %5 = "stablehlo.reshape"(%1) : (tensor<4xf32>) -> tensor<4x1xf32>
    %6 = "stablehlo.is_finite"(%5) : (tensor<4x1xf32>) -> tensor<4x1xi1>
    %7 = "stablehlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
    %8 = "stablehlo.broadcast_in_dim"(%7) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x1xf32>
    %9 = "stablehlo.select"(%6, %5, %8) : (tensor<4x1xi1>, tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
    %10 = "stablehlo.broadcast_in_dim"(%9) {broadcast_dimensions = array<i64: 0, 1>} : (tensor<4x1xf32>) -> tensor<4x3xf32>
    %11 = "stablehlo.subtract"(%arg0, %10) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %12 = "stablehlo.exponential"(%11) : (tensor<4x3xf32>) -> tensor<4x3xf32>
    %13 = "stablehlo.reduce"(%12, %7) ({
      ^bb0(%a14: tensor<f32>, %a15: tensor<f32>):
        %16 = "stablehlo.add"(%a14, %a15) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%16) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>
    %17 = "stablehlo.reshape"(%13) : (tensor<4xf32>) -> tensor<4x1xf32>
    %18 = "stablehlo.log"(%17) : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %19 = "stablehlo.reshape"(%18) : (tensor<4x1xf32>) -> tensor<4xf32>
    %20 = "stablehlo.gather"(%arg0, %arg1) {dimension_numbers = #stablehlo.gather<offset_dims = [], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<4xf32>
    %21 = "stablehlo.reshape"(%9) : (tensor<4x1xf32>) -> tensor<4xf32>
    %22 = "stablehlo.subtract"(%20, %21) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %23 = "stablehlo.subtract"(%19, %22) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%23) : (tensor<4xf32>) -> ()
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
    %7 = "stablehlo.broadcast_in_dim"(%6) {broadcast_dimensions = array<i64: 0, 1>} : (tensor<4x1xf32>) -> tensor<4x3xf32>
    %8 = "stablehlo.subtract"(%arg0, %7) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %9 = "stablehlo.exponential"(%8) : (tensor<4x3xf32>) -> tensor<4x3xf32>
    %10 = "stablehlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
    %11 = "stablehlo.reduce"(%9, %10) ({
      ^bb0(%a12: tensor<f32>, %a13: tensor<f32>):
        %14 = "stablehlo.add"(%a12, %a13) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%14) : (tensor<f32>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>
    %15 = "stablehlo.reshape"(%11) : (tensor<4xf32>) -> tensor<4x1xf32>
    %16 = "stablehlo.broadcast_in_dim"(%15) {broadcast_dimensions = array<i64: 0, 1>} : (tensor<4x1xf32>) -> tensor<4x3xf32>
    %17 = "stablehlo.divide"(%9, %16) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %18 = "stablehlo.broadcast_in_dim"(%arg1) {broadcast_dimensions = array<i64: 0>} : (tensor<4xi32>) -> tensor<4x3xi32>
    %19 = "stablehlo.iota"() {iota_dimension = 1 : i64} : () -> tensor<4x3xi32>
    %20 = "stablehlo.compare"(%18, %19) {comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<4x3xi32>, tensor<4x3xi32>) -> tensor<4x3xi1>
    %21 = "stablehlo.convert"(%20) : (tensor<4x3xi1>) -> tensor<4x3xf32>
    %22 = "stablehlo.subtract"(%17, %21) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %23 = "stablehlo.multiply"(%22, %0) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    "func.return"(%23) : (tensor<4x3xf32>) -> ()
  }
}

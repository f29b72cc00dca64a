module @perceptron {
  func.func public @main(%arg0: tensor<4x3xf32>, %arg1: tensor<3x2xf32>, %arg2: tensor<2xf32>) -> (tensor<4x2xf32>, tensor<4xi32>) {
    %0 = "stablehlo.dot_general"(%arg0, %arg1) {dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
    %1 = "stablehlo.broadcast_in_dim"(%arg2) {broadcast_dimensions = array<i64: 1>} : (tensor<2xf32>) -> tensor<4x2xf32>
    %2 = "stablehlo.add"(%0, %1) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %3 = "stablehlo.tanh"(%2) : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %4 = "stablehlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
    %5 = "stablehlo.constant"() {value = dense<2147483647> : tensor<i32>} : () -> tensor<i32>
    %6 = "stablehlo.iota"() {iota_dimension = 1 : i64} : () -> tensor<4x2xi32>
    %7:2 = "stablehlo.reduce"(%3, %6, %4, %5) ({
      ^bb0(%a8: tensor<f32>, %a9: tensor<i32>, %a10: tensor<f32>, %a11: tensor<i32>):
        %12 = "stablehlo.compare"(%a8, %a8) {comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %13 = "stablehlo.compare"(%a10, %a10) {comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %14 = "stablehlo.compare"(%a8, %a10) {comparison_direction = #stablehlo<comparison_direction GT>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %15 = "stablehlo.not"(%13) : (tensor<i1>) -> tensor<i1>
        %16 = "stablehlo.and"(%12, %15) : (tensor<i1>, tensor<i1>) -> tensor<i1>
        %17 = "stablehlo.or"(%14, %16) : (tensor<i1>, tensor<i1>) -> tensor<i1>
        %18 = "stablehlo.compare"(%a8, %a10) {comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %19 = "stablehlo.and"(%12, %13) : (tensor<i1>, tensor<i1>) -> tensor<i1>
        %20 = "stablehlo.or"(%18, %19) : (tensor<i1>, tensor<i1>) -> tensor<i1>
        %21 = "stablehlo.compare"(%a9, %a11) {comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %22 = "stablehlo.and"(%20, %21) : (tensor<i1>, tensor<i1>) -> tensor<i1>
        %23 = "stablehlo.or"(%17, %22) : (tensor<i1>, tensor<i1>) -> tensor<i1>
        %24 = "stablehlo.select"(%23, %a8, %a10) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
        %25 = "stablehlo.select"(%23, %a9, %a11) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
        "stablehlo.return"(%24, %25) : (tensor<f32>, tensor<i32>) -> ()
    }) {dimensions = array<i64: 1>} : (tensor<4x2xf32>, tensor<4x2xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
    "func.return"(%3, %7#1) : (tensor<4x2xf32>, tensor<4xi32>) -> ()
  }
}

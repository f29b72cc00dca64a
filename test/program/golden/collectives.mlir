module @chain attributes {mhlo.num_replicas = 4 : i32} {
  func.func public @main(%arg0: tensor<4x6xf64>, %arg1: tensor<3xf64>) -> (tensor<4x6xf64>, tensor<3xf64>) {
    %0 = "stablehlo.all_reduce"(%arg0) ({
      ^bb0(%a1: tensor<f64>, %a2: tensor<f64>):
        %3 = "stablehlo.add"(%a1, %a2) : (tensor<f64>, tensor<f64>) -> tensor<f64>
        "stablehlo.return"(%3) : (tensor<f64>) -> ()
    }) {replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>} : (tensor<4x6xf64>) -> tensor<4x6xf64>
    %4 = "stablehlo.all_reduce"(%arg1) ({
      ^bb0(%a5: tensor<f64>, %a6: tensor<f64>):
        %7 = "stablehlo.add"(%a5, %a6) : (tensor<f64>, tensor<f64>) -> tensor<f64>
        "stablehlo.return"(%7) : (tensor<f64>) -> ()
    }) {replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>} : (tensor<3xf64>) -> tensor<3xf64>
    %8 = "stablehlo.all_gather"(%0) {all_gather_dim = 1 : i64, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>} : (tensor<4x6xf64>) -> tensor<4x12xf64>
    %9 = "stablehlo.reduce_scatter"(%8) ({
      ^bb0(%a10: tensor<f64>, %a11: tensor<f64>):
        %12 = "stablehlo.add"(%a10, %a11) : (tensor<f64>, tensor<f64>) -> tensor<f64>
        "stablehlo.return"(%12) : (tensor<f64>) -> ()
    }) {scatter_dimension = 0 : i64, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>} : (tensor<4x12xf64>) -> tensor<2x12xf64>
    %13 = "stablehlo.all_to_all"(%9) {split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>} : (tensor<2x12xf64>) -> tensor<4x6xf64>
    %14 = "stablehlo.replica_id"() : () -> tensor<ui32>
    %15 = "stablehlo.constant"() {value = dense<2> : tensor<ui32>} : () -> tensor<ui32>
    %16 = "stablehlo.divide"(%14, %15) : (tensor<ui32>, tensor<ui32>) -> tensor<ui32>
    %17 = "stablehlo.remainder"(%16, %15) : (tensor<ui32>, tensor<ui32>) -> tensor<ui32>
    %18 = "stablehlo.convert"(%17) : (tensor<ui32>) -> tensor<i32>
    %19 = "stablehlo.convert"(%18) : (tensor<i32>) -> tensor<f64>
    %20 = "stablehlo.constant"() {value = dense<1.0> : tensor<f64>} : () -> tensor<f64>
    %21 = "stablehlo.broadcast_in_dim"(%20) {broadcast_dimensions = array<i64>} : (tensor<f64>) -> tensor<4x6xf64>
    %22 = "stablehlo.add"(%13, %21) : (tensor<4x6xf64>, tensor<4x6xf64>) -> tensor<4x6xf64>
    %23 = "stablehlo.broadcast_in_dim"(%19) {broadcast_dimensions = array<i64>} : (tensor<f64>) -> tensor<3xf64>
    %24 = "stablehlo.multiply"(%4, %23) : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
    "func.return"(%22, %24) : (tensor<4x6xf64>, tensor<3xf64>) -> ()
  }
}

// The builtin scripts of SystemDS on small data: a script's name, the call, and the results that are compared. `random`: the results
// depend on random numbers, so only their sizes are compared.

import { framesCases } from "./cases-frames.mjs";

/** What all cases begin with: data without random numbers. */
export const prelude = `
X = sin(matrix(seq(1, 160), 40, 4) * 1.7) + 0.5 * cos(matrix(seq(1, 160), 40, 4) ^ 2)
y = X %*% matrix("1 -2 0.5 3", 4, 1) + 0.1 * sin(seq(1, 40) * 99)
yb = matrix(1, 40, 1) * (y > 0)
y12 = yb + 1
y3 = 1 + (y > -1) + (y > 1)
P = abs(X)
K = round(abs(X) * 3) + 1
Z = X * (abs(X) > 0.3)
N = replace(target = Z, pattern = 0, replacement = NaN)
G = 1 * ((sin(matrix(seq(1, 64), 8, 8) * 3.3) > 0.4) | (t(sin(matrix(seq(1, 64), 8, 8) * 3.3)) > 0.4))
I4 = round(abs(matrix(seq(1, 32), 2, 16) * 7) - 0)
I1 = I4 - floor(I4 / 256) * 256
S = matrix(I1[1, ], 4, 4)
FK = (seq(0, 39) %% 4) + 1
FY = FK * 2 + 5 * (seq(1, 40) == 9)
G40 = 1 * (X %*% t(X) > 2)
ts = sin(seq(1, 60) * 0.7) + 0.3 * cos(seq(1, 60) * 2.1)
`;

const one = (script, call, ...results) => ({ script, call, results });
const random = (script, call, ...results) => ({ script, call, results, random: true });

export const cases = [
  ...framesCases,
  one("WoE", "[F, e] = WoE(K, y12, matrix(1, 1, 4))", "F", "e"),
  one("WoEApply", "[F, e] = WoE(K, y12, matrix(1, 1, 4))\nG2 = WoEApply(K, y12, e)", "G2"),
  one("abstain", "[A, B] = abstain(X = X, Y = y12, threshold = 0.6)", "A", "B"),
  random("adasyn", "[A, B] = adasyn(X = X, Y = 1 + (X[, 1] > 0.9), k = 2, seed = 3)", "A"),
  random("als", "[U, V] = als(X = P, rank = 2, maxi = 5, verbose = FALSE)", "U", "V"),
  random("alsCG", "[U, V] = alsCG(X = P, rank = 2, maxi = 5, verbose = FALSE)", "U", "V"),
  random("alsDS", "[U, V] = alsDS(X = P, rank = 2, maxi = 5, verbose = FALSE)", "U", "V"),
  one("alsPredict", "A = alsPredict(userIDs = seq(1, 5), I = G40, L = X, R = t(X))", "A"),
  one("alsTopkPredict", "[A, B] = alsTopkPredict(userIDs = seq(1, 5), I = G40, L = X, R = t(X), K = 3)", "A", "B"),
  random(
    "ampute",
    'A = ampute(X = X, prop = 0.3, patterns = matrix("1 0 1 1 0 1 1 1", 2, 4), freq = matrix("0.5 0.5", 2, 1), mech = "MCAR", seed = 4)',
    "A",
  ),
  random("arima", "A = arima(X = ts, max_func_invoc = 10, p = 1)", "A"),
  one("auc", "A = auc(yb, P[, 1])", "A"),
  random(
    "autoencoder_2layer",
    "[a, b, c, d, e, f, g, h, A] = autoencoder_2layer(X = X, num_hidden1 = 3, num_hidden2 = 2, max_epochs = 2)",
    "a",
    "h",
  ),
  one(
    "bivar",
    '[A, B, C, D] = bivar(X, matrix("1 2", 1, 2), matrix("3 4", 1, 2), matrix(1, 1, 2), matrix(1, 1, 2), FALSE)',
    "A",
  ),
  one("components", "A = components(G = G, verbose = FALSE)", "A"),
  one("confusionMatrix", "[A, B] = confusionMatrix(y3, K[, 1] - 3 * (K[, 1] > 3))", "A", "B"),
  one("cor", "A = cor(X)", "A"),
  one(
    "cox",
    '[A, B, C, D, E, F] = cox(X = cbind(P[, 1] * 10, yb, X[, 2 : 3]), TE = matrix("1 2", 2, 1), F = matrix("3 4", 2, 1), R = matrix(0, 1, 1))',
    "A",
    "B",
    "C",
  ),
  one("cspline", "[A, B] = cspline(X = seq(1, 10), Y = X[1 : 10, 1], inp_x = 4.5)", "A", "B"),
  one("csplineCG", "[A, B] = csplineCG(X = seq(1, 10), Y = X[1 : 10, 1], inp_x = 4.5)", "A", "B"),
  one("csplineDS", "[A, B] = csplineDS(seq(1, 10), X[1 : 10, 1], 4.5)", "A", "B"),
  one("cvlm", "[A, B] = cvlm(X = X, y = y, k = 4)", "A", "B"),
  one("dbscan", "[A, B] = dbscan(X, 0.9, 3)", "A", "B"),
  one("dbscanApply", "[A, B] = dbscan(X, 0.9, 3)\n[C, D] = dbscanApply(X[1 : 9, ], B, 0.9)", "C", "D"),
  random(
    "decisionTree",
    'A = decisionTree(X = K, y = y12, ctypes = matrix("1 1 1 1 2", 1, 5), min_leaf = 2, min_split = 4, max_features = 1.0, seed = 7)',
    "A",
  ),
  one(
    "decisionTreePredict",
    'A = decisionTreePredict(X = K, ctypes = matrix("1 1 1 1 2", 1, 5), M = matrix("1 2 0 1 0 2", 1, 6), strategy = "TT")',
    "A",
  ),
  random("deepWalk", "A = deepWalk(G, 2, 3, 2, 4)", "A"),
  one("discoverFD", "A = discoverFD(K, matrix(1, 1, 4), 0.7)", "A"),
  one("dist", "A = dist(X)", "A"),
  one("f1Score", "A = f1Score(y12, 1 + (X[, 1] > 0))", "A"),
  random(
    "ffTrain",
    'm = ffTrain(X = X, Y = yb, batch_size = 8, epochs = 2, out_activation = "sigmoid", loss_fcn = "log_loss", seed = 3)\nA = as.matrix(length(m))',
    "A",
  ),
  one("flattenQuantile", 'A = flattenQuantile(X, matrix("0.25 0.5", 2, 1))', "A"),
  one("frequencyEncode", "[A, B] = frequencyEncode(K, matrix(1, 1, 4))", "A", "B"),
  one("frequencyEncodeApply", "[A, B] = frequencyEncode(K, matrix(1, 1, 4))\nC = frequencyEncodeApply(K, B)", "C"),
  random("garch", "[A, B, a, b, c] = garch(ts, 3, 0.5, 0.25, 0.125, 0.5, 0.1, 54, FALSE)", "A"),
  one("gaussianClassifier", "[A, B, L, D] = gaussianClassifier(D = X, C = y12, verbose = FALSE)", "A", "B", "D"),
  one(
    "getAccuracy",
    "A = getAccuracy(y = y3, yhat = y12)\nB = getAccuracy(y = y3, yhat = y12, isWeighted = TRUE)",
    "A",
    "B",
  ),
  one(
    "glm",
    // One call: SystemDS gives the betas of another call where a script has several.
    "A = glm(X = X, Y = yb, dfam = 2, link = 2, icpt = 1, verbose = FALSE)",
    "A",
  ),
  one("glmPredict", 'A = glmPredict(X = X, B = matrix("1 -2 0.5 3", 4, 1), ytest = y, verbose = FALSE)', "A"),
  random("gmm", "[A, B, a, b, C, D, E] = gmm(X = X, n_components = 2, iter = 5, seed = 3)", "A", "C"),
  one(
    "gmmPredict",
    '[A, B] = gmmPredict(X = X, weight = matrix("0.4 0.6", 1, 2), mu = matrix("0 0 0 0 1 1 1 1", 2, 4), precisions_cholesky = matrix("1 2 1 0.5 1 1 1.5 1", 2, 4), model = "VVI")',
    "A",
    "B",
  ),
  random("gnmf", "[A, B] = gnmf(P, 2, 1e-8, 3)", "A", "B"),
  one(
    "gridSearch",
    `l2norm = function(Matrix[Double] X, Matrix[Double] y, Matrix[Double] B) return (Matrix[Double] loss) { loss = as.matrix(sum((y - X %*% B) ^ 2)) }
[A, o] = gridSearch(X = X, y = y, train = "lm", predict = "l2norm", numB = 4, params = list("reg", "tol", "maxi"), paramValues = list(10 ^ seq(0, -2), 10 ^ seq(-6, -8), 10 ^ seq(1, 2)), verbose = FALSE)`,
    "A",
  ),
  one(
    "hospitalResidencyMatch",
    '[A, B] = hospitalResidencyMatch(R = matrix("1 2 3 2 1 3 3 1 2", 3, 3), H = matrix("1 2 3 3 1 2 2 3 1", 3, 3), capacity = matrix(1, 3, 1))',
    "A",
    "B",
  ),
  random(
    "hyperband",
    '[A, o] = hyperband(X_train = X[1 : 30, ], y_train = y[1 : 30, ], X_val = X[31 : 40, ], y_val = y[31 : 40, ], params = list("reg"), paramRanges = matrix("0 20", 1, 2), R = 9, verbose = FALSE)',
    "A",
  ),
  one("img_brightness", "A = img_brightness(S, 30, 255)", "A"),
  one("img_brightness_linearized", "A = img_brightness_linearized(I1, 30, 255)", "A"),
  one("img_crop", "A = img_crop(S, 2, 2, 1, 1)", "A"),
  one("img_crop_linearized", "A = img_crop_linearized(I1, 2, 2, 1, 1, 4, 4)", "A"),
  one("img_cutout", "A = img_cutout(S, 2, 2, 2, 1, 9)", "A"),
  one("img_cutout_linearized", "A = img_cutout_linearized(I1, 2, 2, 2, 1, 9, 4, 4)", "A"),
  one("img_invert", "A = img_invert(S, 255)", "A"),
  one("img_invert_linearized", "A = img_invert_linearized(I1, 255)", "A"),
  one("img_mirror", "A = img_mirror(S, TRUE)", "A"),
  one("img_mirror_linearized", "A = img_mirror_linearized(I1, TRUE, 4, 4)", "A"),
  one("img_posterize", "A = img_posterize(S, 3)", "A"),
  one("img_posterize_linearized", "A = img_posterize_linearized(I1, 3)", "A"),
  one("img_rotate", "A = img_rotate(S, 0.6, 1)", "A"),
  one("img_rotate_linearized", "A = img_rotate_linearized(I1, 0.6, 1, 4, 4)", "A"),
  one("img_sample_pairing", "A = img_sample_pairing(S, t(S), 0.4)", "A"),
  one("img_sample_pairing_linearized", "A = img_sample_pairing_linearized(I1, I1[2, ], 0.4)", "A"),
  one("img_shear", "A = img_shear(S, 0.3, 0.1, 1)", "A"),
  one("img_shear_linearized", "A = img_shear_linearized(I1, 0.3, 0.1, 1, 4, 4)", "A"),
  one("img_transform", "A = img_transform(S, 4, 4, 1, 0.2, 0, 0.1, 1, 0, 5)", "A"),
  one("img_transform_linearized", "A = img_transform_linearized(I1, 4, 4, 1, 0.2, 0, 0.1, 1, 0, 5, 4, 4)", "A"),
  one("img_translate", "A = img_translate(S, 1, 2, 4, 4, 7)", "A"),
  one("img_translate_linearized", "A = img_translate_linearized(I1, 1, 2, 4, 4, 7, 4, 4)", "A"),
  one("impurityMeasures", 'A = impurityMeasures(X = K, Y = yb, R = matrix(1, 1, 4), n_bins = 5, method = "gini")', "A"),
  one("imputeByFD", "[A, B] = imputeByFD(X = FK, Y = FY, threshold = 0.6)", "A", "B"),
  one("imputeByFDApply", "[A, B] = imputeByFD(X = FK, Y = FY, threshold = 0.6)\nC = imputeByFDApply(FK, B)", "C"),
  // By "dist" the answer depends on whether a row is at a distance of exactly 0 from itself.
  one("imputeByKNN", 'A = imputeByKNN(X = N, method = "dist_missing")', "A"),
  one("imputeByMean", "[A, B] = imputeByMean(N, matrix(0, 1, 4))", "A", "B"),
  one("imputeByMeanApply", "[A, B] = imputeByMean(N, matrix(0, 1, 4))\nC = imputeByMeanApply(N, B)", "C"),
  one("imputeByMedian", "[A, B] = imputeByMedian(N, matrix(0, 1, 4))", "A", "B"),
  one("imputeByMedianApply", "[A, B] = imputeByMedian(N, matrix(0, 1, 4))\nC = imputeByMedianApply(N, B)", "C"),
  one("imputeByMode", "[A, B] = imputeByMode(replace(target = K, pattern = 2, replacement = NaN))", "A", "B"),
  one(
    "imputeByModeApply",
    "[A, B] = imputeByMode(replace(target = K, pattern = 2, replacement = NaN))\nC = imputeByModeApply(replace(target = K, pattern = 2, replacement = NaN), B)",
    "C",
  ),
  one("intersect", "A = intersect(K[, 1], K[, 2])", "A"),
  one(
    "km",
    '[A, B, C, D] = km(X = cbind(K[, 1], yb, K[, 2]), TE = matrix("1 2", 2, 1), GI = matrix(3, 1, 1), SI = matrix(0, 1, 1))',
    "A",
    "B",
  ),
  random("kmeans", "[A, B] = kmeans(X = X, k = 3, runs = 2, seed = 3, avg_sample_size_per_centroid = 5)", "A", "B"),
  one("kmeansPredict", "A = kmeansPredict(X, X[1 : 3, ])", "A"),
  one(
    "knn",
    "[A, B, C] = knn(Train = X, Test = X[1 : 5, ] + 0.1, CL = y12, k_value = 3, predict_con_tg = 1)",
    "A",
    "B",
  ),
  one("knnGraph", "A = knnGraph(X, 3)", "A"),
  one("knnbf", "A = knnbf(X, X[1 : 5, ] + 0.1, 3)", "A"),
  one("l2svm", "A = l2svm(X = X, Y = y12, intercept = TRUE)", "A"),
  one("l2svmPredict", '[A, B] = l2svmPredict(X = X, W = matrix("1 2 3 4", 4, 1))', "A", "B"),
  one("lasso", "A = lasso(X = X, y = y, verbose = FALSE)", "A"),
  one("lm", "A = lm(X = X, y = y, verbose = FALSE)", "A"),
  one("lmCG", "A = lmCG(X = X, y = y, icpt = 2, verbose = FALSE)", "A"),
  one("lmDS", "A = lmDS(X = X, y = y, icpt = 2, verbose = FALSE)", "A"),
  one("lmPredict", 'A = lmPredict(X = X, B = matrix("1 -2 0.5 3", 4, 1))', "A"),
  one("lmPredictStats", "A = lmPredictStats(y, X[, 1], TRUE)", "A"),
  one("logSumExp", 'A = logSumExp(X, "rows")\nB = logSumExp(X, "none")', "A", "B"),
  one("mae", '[A, B] = mae(X = X, Y = P, P = matrix("0.25 0.5", 2, 1))', "A", "B"),
  one("mape", '[A, B] = mape(X = P, Y = X, P = matrix("0.25 0.5", 2, 1))', "A", "B"),
  one("matrixProfile", "[A, B] = matrixProfile(ts = ts, window_size = 5, sample_percent = 1.0)", "A"),
  one("mcc", "A = mcc(yb, 1 * (X[, 1] > 0))", "A"),
  random("mice", "[A, B, t, d, l] = mice(X = N, cMask = matrix(0, 1, 4), iter = 2)", "A"),
  one("mse", '[A, B] = mse(X = X, Y = P, P = matrix("0.25 0.5", 2, 1))', "A", "B"),
  one("msmape", '[A, B] = msmape(X = X, Y = P, P = matrix("0.25 0.5", 2, 1))', "A", "B"),
  one("msvm", "A = msvm(X = X, Y = y3)", "A"),
  one("msvmPredict", "[A, B] = msvmPredict(X, matrix(seq(1, 12), 4, 3))", "A", "B"),
  one("multiLogReg", "A = multiLogReg(X = X, Y = y3, icpt = 1, verbose = FALSE)", "A"),
  one(
    "multiLogRegPredict",
    "[A, B, c] = multiLogRegPredict(X = X, B = matrix(seq(1, 8), 4, 2) / 8, Y = y3)",
    "A",
    "B",
    "c",
  ),
  one("na_locf", 'A = na_locf(X = N)\nB = na_locf(X = N, option = "nocb")', "A", "B"),
  one("naiveBayes", "[A, B] = naiveBayes(D = P, C = y3, verbose = FALSE)", "A", "B"),
  one(
    "naiveBayesPredict",
    "[A, B] = naiveBayes(D = P, C = y3, verbose = FALSE)\n[C, D] = naiveBayesPredict(P, A, B)",
    "C",
    "D",
  ),
  one("normalize", "[A, B, C] = normalize(X)", "A", "B", "C"),
  one("normalizeApply", "A = normalizeApply(X, colMins(P), colMaxs(P))", "A"),
  one("nrmse", '[A, B] = nrmse(X = X, Y = P, P = matrix("0.25 0.5", 2, 1))', "A", "B"),
  one("outlier", "A = outlier(X, FALSE)", "A"),
  random("outlierByArima", "A = outlierByArima(X = ts, p = 1)", "A"),
  one(
    "outlierByIQR",
    "[A, B, C, D, k, r] = outlierByIQR(X = X, k = 0.5, repairMethod = 1, max_iterations = 1, verbose = FALSE)",
    "A",
    "B",
    "C",
  ),
  one(
    "outlierByIQRApply",
    "A = outlierByIQRApply(X, matrix(-0.5, 1, 4), matrix(0.5, 1, 4), matrix(1, 1, 4), 0.5, 1)",
    "A",
  ),
  one(
    "outlierBySd",
    "[A, B, C, k, r] = outlierBySd(X = X, k = 1, repairMethod = 1, max_iterations = 2, verbose = FALSE)",
    "A",
    "B",
    "C",
  ),
  one("outlierBySdApply", "A = outlierBySdApply(X, matrix(0, 1, 4), matrix(0.5, 1, 4), 1, 1)", "A"),
  one(
    "pageRank",
    "A = pageRank(G = G / 8, p = matrix(0.125, 8, 1), e = matrix(1, 8, 1), u = matrix(0.125, 1, 8))",
    "A",
  ),
  one("pca", "[A, B, C, D] = pca(X = X, K = 2)\nA = abs(A)\nB = abs(B)", "A", "B", "C", "D"),
  one("pcaInverse", "A = pcaInverse(Y = X[, 1 : 2], Clusters = X[1 : 4, 1 : 2])", "A"),
  one("pcaTransform", "A = pcaTransform(X = X, Clusters = X[1 : 4, 1 : 2])", "A"),
  random("pnmf", "[A, B] = pnmf(X = P, rnk = 2, maxi = 3, verbose = FALSE)", "A", "B"),
  random("ppca", "[A, B] = ppca(X = X, K = 2, verbose = FALSE)", "A", "B"),
  one("psnr", "A = psnr(X, P)", "A"),
  random("quantizeByCluster", "[A, B, R] = quantizeByCluster(X = X, M = 2, k = 3, seed = 4)", "A"),
  one("raGroupby", 'A = order(target = raGroupby(K, 1, "nested-loop"), by = 1)', "A"),
  one("raJoin", 'A = raJoin(K[1 : 5, ], 1, K[6 : 9, ], 1, "nested-loop")', "A"),
  one("raSelection", 'A = raSelection(K, 1, "==", 2)', "A"),
  random(
    "randomForest",
    'A = randomForest(X = K, y = y12, ctypes = matrix("1 1 1 1 2", 1, 5), num_trees = 2, sample_frac = 0.8, min_leaf = 2, min_split = 4, max_features = 1.0, seed = 7)\nA = as.matrix(nrow(A))',
    "A",
  ),
  one(
    "randomForestPredict",
    'A = randomForestPredict(X = K, ctypes = matrix("1 1 1 1 2", 1, 5), M = matrix("0 0 0 0 1 2 0 1 0 2", 1, 10))',
    "A",
  ),
  one("rmse", '[A, B] = rmse(X = X, Y = P, P = matrix("0.25 0.5", 2, 1))', "A", "B"),
  one("scale", "[A, B, C] = scale(X = X)", "A", "B", "C"),
  one("scaleApply", "A = scaleApply(X, colMeans(P), colSds(P))", "A"),
  one("scaleMinMax", "A = scaleMinMax(X)", "A"),
  one("scaleRobust", "[A, B, C, D] = scaleRobust(X)", "A", "B", "C", "D"),
  one("scaleRobustApply", "A = scaleRobustApply(X, colMeans(X), colMins(X), colMaxs(X))", "A"),
  one("selectByVarThresh", "[A, B] = selectByVarThresh(X, 0.55)", "A", "B"),
  one("ses", "A = ses(ts, 3, 0.4)", "A"),
  one("setdiff", "A = setdiff(K[, 1], K[1 : 5, 2])", "A"),
  one("shortestPath", 'A = shortestPath(G = matrix("0 2 5 5 1 0 4 10 0 3 0 1 3 2 0 0", 4, 4), sourceNode = 1)', "A"),
  one("sigmoid", "A = sigmoid(X)", "A"),
  one("skewness", "A = skewness(X)", "A"),
  one(
    "sliceLine",
    "[A, B, D] = sliceLine(X = K, e = 5 * (K[, 1] == 2) + 0.01 * P[, 1], k = 3, minSup = 3, alpha = 0.95)",
    "A",
    "B",
  ),
  one(
    "slicefinder",
    "[A, B, D] = slicefinder(X = K, e = 5 * (K[, 1] == 2) + 0.01 * P[, 1], k = 3, minSup = 3, alpha = 0.95)",
    "A",
    "B",
  ),
  one(
    "incSliceLine",
    "[A, B, D, L, m, s, x, e, f, g, p] = incSliceLine(addedX = K, addedE = 5 * (K[, 1] == 2) + 0.01 * P[, 1], k = 3, minSup = 3, alpha = 0.95)",
    "A",
    "B",
  ),
  one(
    "sliceLineExtract",
    "[A, B, D] = sliceLine(X = K, e = 5 * (K[, 1] == 2) + 0.01 * P[, 1], k = 3, minSup = 3, alpha = 0.95)\n[E, F, H] = sliceLineExtract(X = K, e = P[, 1], TK = A, TKC = B, k2 = 1)",
    "E",
    "F",
  ),
  one("smape", '[A, B] = smape(X = X, Y = P, P = matrix("0.25 0.5", 2, 1))', "A", "B"),
  random("smote", "A = smote(X = X[1 : 10, ], mask = matrix(0, 1, 4), s = 100, k = 1)", "A"),
  one("softmax", "A = softmax(X)", "A"),
  one("split", "[A, B, C, D] = split(X = X, Y = y)", "A", "B", "C", "D"),
  random("splitBalanced", "[A, B, C, D] = splitBalanced(X = X, Y = y12)", "A"),
  one("sqrtMatrix", 'A = sqrtMatrix(t(X) %*% X, "COMMON")', "A"),
  one(
    "stableMarriage",
    'A = stableMarriage(P = matrix("1 2 3 2 1 3 3 1 2", 3, 3), A = matrix("1 2 3 3 1 2 2 3 1", 3, 3))',
    "A",
  ),
  one("steplm", "[A, B] = steplm(X = X, y = y, verbose = FALSE)", "A", "B"),
  one("stratstats", "A = stratstats(X = X[, 1 : 2], Y = X[, 3 : 4], S = y3)", "A"),
  one("symmetricDifference", "A = symmetricDifference(K[, 1], K[1 : 5, 2])", "A"),
  random("tSNE", "A = tSNE(X = X, perplexity = 5, max_iter = 3, seed = 3)", "A"),
  one("toOneHot", "A = toOneHot(y3, 3)", "A"),
  one("tomeklink", "[A, B, C] = tomeklink(X, yb)", "A", "B", "C"),
  random("underSampling", "[A, B] = underSampling(X, y12, 0.3)", "A"),
  one("union", "A = order(target = union(K[, 1], K[, 2]), by = 1)", "A"),
  one("univar", "A = univar(X, matrix(1, 1, 4))", "A"),
  one("vectorToCsv", 'A = as.frame(vectorToCsv(matrix("1 0 1", 1, 3)))', "A"),
  one("winsorize", "[A, B, C] = winsorize(X, 0.1, 0.9, FALSE)", "A", "B", "C"),
  one("winsorizeApply", "A = winsorizeApply(X, matrix(-0.5, 1, 4), matrix(0.5, 1, 4))", "A"),
  one(
    "xgboost",
    "A = xgboost(X = X[1 : 12, 1 : 2], y = y[1 : 12, ], R = matrix(1, 1, 2), sml_type = 1, num_trees = 1, max_depth = 2)",
    "A",
  ),
  one(
    "xgboostPredictRegression",
    "A = xgboost(X = X[1 : 12, 1 : 2], y = y[1 : 12, ], R = matrix(1, 1, 2), sml_type = 1, num_trees = 1, max_depth = 2)\nB = xgboostPredictRegression(X = X[1 : 12, 1 : 2], M = A)",
    "B",
  ),
  one(
    "xgboostPredictClassification",
    "A = xgboost(X = X[1 : 12, 1 : 2], y = yb[1 : 12, ], R = matrix(1, 1, 2), sml_type = 2, num_trees = 1, max_depth = 2)\nB = xgboostPredictClassification(X = X[1 : 12, 1 : 2], M = A)",
    "B",
  ),
];

/** The whole script of a case, which writes its results to a folder. */
export const scriptOf = ({ call, results }, folder) =>
  `${prelude}\n${call}\n${results.map((name) => `write(${name}, "${folder}/${name}.csv", format="csv")`).join("\n")}\n`;

// Package archtest keeps the architecture true: it holds no code of the
// product, only tests that read the whole source tree, every platform's and
// every build tag's files alike.
//
// What is allowed stands in one table (layers) and a few lists; a new package
// must be entered there before it can be imported. Nothing imports it.
package archtest

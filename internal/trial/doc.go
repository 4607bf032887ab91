// Package trial puts one workload through an engine in several ways and says
// whether each of them is to be trusted: `ondol verify`.
//
// It may be imported by the surfaces and by what wires the app. It knows
// texts, requests and figures; what a path is (the engine itself, the
// endpoint, a candidate) is a Target that it is handed.
//
// What it guarantees:
//
//   - every request of the workload ends as exactly one sample, with one
//     outcome; only answers that came in time and are valid count in p50, p95
//     and throughput;
//   - every input has exactly the tokens that the report says, counted by the
//     engine, and no two inputs of a run are equal, nor any of two runs, so
//     that neither the cache nor a joined request answers for the engine;
//   - the same inputs go down every path, and their vectors are compared;
//   - nothing is invented: what could not be measured is absent, or says why;
//   - Run returns when every request that it made has returned.
//
// design.md beside it has the workload, the law of the verdict, and what a
// trial means for other clients.
package trial

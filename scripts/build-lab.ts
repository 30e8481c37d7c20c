/** Builds the programs of the test clusters while other tests run; see test/harness/kube-programs.ts. */
import { kubePrograms, whyNoKubernetes } from '../test/harness/kube-programs.ts'

// The compiler ends with this process, however it ends.
process.once('SIGTERM', () => process.exit(1))
// Where no cluster can run, its tests say so.
if (whyNoKubernetes() === undefined) void kubePrograms()

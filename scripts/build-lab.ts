/**
 * Builds programs that tests need from Go modules, before they are needed; see test/lab/go-build.ts. With the argument
 * `kubernetes`, those of a cluster too.
 */
import { goProgram } from '../test/lab/go-build.ts'
import { kubePrograms } from '../test/lab/kube-programs.ts'
import { s3Program } from '../test/lab/s3-server.ts'

// The compiler ends with this process, however it ends.
process.once('SIGTERM', () => process.exit(1))
// Without Go, the tests that need one of them say so.
if (goProgram() !== undefined) {
  await s3Program()
  // Packages that a cluster needs too may be installed at this moment; without root it can't run.
  if (process.argv.includes('kubernetes') && process.getuid?.() === 0) await kubePrograms()
}

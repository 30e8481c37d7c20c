/** Runs a host program in a network namespace. */
import { runProgram } from '../run-program.ts'

const RUN_MS = 10_000

/** `namespace` is its file. undefined: our own. */
export async function runIn(
  namespace: string | undefined,
  program: string,
  args: readonly string[],
  input = '',
): Promise<string> {
  const options = { signal: new AbortController().signal, timeoutMs: RUN_MS, input }
  if (namespace === undefined) return runProgram(program, args, options)
  return runProgram('nsenter', [`--net=${namespace}`, program, ...args], options)
}

/** The command's environment, its person and its failures. Only main.ts uses the real environment. */
import type { Keyring } from './keyring.ts'

export interface Shell {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Whether each output is a terminal that shows colors. */
  readonly color: { readonly out: boolean; readonly error: boolean }
  write(text: string): void
  writeError(text: string): void
  /** undefined: the file does not exist or cannot be read. */
  readFile(path: string): string | undefined
  /** The whole standard input. undefined: it cannot be read. */
  readInput(): string | undefined
  /** Width of the terminal. Absent: the output is not a terminal, and nothing is cut. */
  readonly columns?: number
  /** Absent: there is no terminal, so no questions are asked. */
  readonly person?: Person
  /** Absent: this system has none, so keys are kept in a private file. */
  readonly keyring?: Keyring
}

/** The person at the terminal. */
export interface Person {
  /** undefined: canceled with Ctrl-C or Ctrl-D. `hidden`: the answer is not shown. */
  ask(question: string, options?: { readonly hidden: boolean }): Promise<string | undefined>
}

/** Documented in `berth --help`, except `restart`: the agent was updated, and its supervisor should start it again. */
export const exitCodes = { ok: 0, failed: 1, usage: 2, unreachable: 3, refused: 4, restart: 75 } as const
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]

/** A failure with a message and next steps for the person at the terminal. */
export class CliError extends Error {
  readonly exitCode: ExitCode
  readonly next: readonly string[]
  /** Additional fields of the error in JSON output. */
  readonly detail: Readonly<Record<string, unknown>>

  constructor(exitCode: ExitCode, message: string, next: readonly string[] = [], detail: Record<string, unknown> = {}) {
    super(message)
    this.exitCode = exitCode
    this.next = next
    this.detail = detail
  }
}

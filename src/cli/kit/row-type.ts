/** The types of a command: the row that describes it, and the call that runs it. */
import type { Command } from 'commander'
import type { CallableId, Client } from '../../client/client.ts'
import type { FlagSpec } from './flag.ts'
import type { Screen } from './screen.ts'
import type { Session, Who } from '../rental/session.ts'
import type { ExitCode, Shell } from './shell.ts'

/** The input of an operation. */
export interface Input {
  readonly parts: { readonly params?: Values; readonly query?: Values; readonly body?: Values }
  readonly isIdempotent?: true
}

export type Values = Readonly<Record<string, unknown>>

/** The arguments of a command. */
export interface Call<Options = unknown, Target = unknown> {
  readonly session: Session
  readonly client: Client
  readonly screen: Screen
  readonly shell: Shell
  readonly options: Options
  /** Positional arguments, parsed; a variadic one is a list. */
  readonly args: readonly unknown[]
  /** The input of the operation, read from flags and arguments. */
  readonly input: Input
  /** The thing that the first argument names. */
  readonly target: Target
  readonly command: Command
}

/** A thing that is named by its id or by a name. */
export interface TargetSpec<T> {
  readonly arg: string
  readonly help: string
  readonly find: (client: Client, text: string) => Promise<T>
  readonly idOf: (target: T) => string | number
  /** The field that takes the id (default: the field in the path). */
  readonly field?: string
}

export interface ArgSpec {
  readonly help: string
  /**
   * The field that the argument fills (default: the field of the same name; for the first argument, the field in the
   * path).
   */
  readonly field?: string
  readonly choices?: readonly string[]
  readonly parse?: (text: string) => unknown
}

/** An option that is not a field of the operation. */
export interface OptionSpec {
  readonly help: string
  readonly parse?: (text: string, before: unknown) => unknown
  readonly choices?: readonly string[]
  readonly default?: unknown
  readonly conflicts?: readonly string[]
  readonly required?: true
  readonly hidden?: true
}

/** The options of a command, by flag: `{ '--size <gb>': 'size to price' }`. */
export type Options = Readonly<Record<string, string | OptionSpec>>

/** Properties that every command may have. */
export interface Details {
  readonly alias?: string
  /** Absent: the command with its arguments. */
  readonly examples?: readonly string[]
  /** The arguments, by their name in the help: `{ '<usd>': 'amount', '[name...]': … }`. */
  readonly args?: Readonly<Record<string, string | ArgSpec>>
  readonly options?: Options
  /** The flags of the operation's fields. A field that is not listed gets the flag in the contract. */
  readonly flags?: Readonly<Record<string, FlagSpec>>
  /** Only these fields become flags. */
  readonly only?: readonly string[]
  /** Required fields that the command fills in if no flag does. */
  readonly isOptional?: readonly string[]
  /** Values for fields that were not typed. */
  readonly defaults?: Readonly<Record<string, string | number | boolean>>
  /** Values that are part of the command: `enable` means `{ enabled: true }`. */
  readonly fixed?: Values
  /** Text below the options in the help. */
  readonly notes?: string
  /** Which key the command uses (default: by the operation's access). */
  readonly who?: Who
  /** Its output says which account it is about. */
  readonly showsAccount?: true
  /** The same as `who`, if it depends on the options. */
  readonly whoOf?: ((options: never) => Who) | undefined
}

/** A command, as the program adds it to the tree. */
export interface Row extends Details {
  /** The words after `berth`. */
  readonly command: string
  readonly description: string
  readonly operation?: CallableId | undefined
  readonly target?: TargetSpec<unknown> | undefined
  readonly isCustom?: true
  /** Calls its operation with the whole input. */
  readonly sends?: true
  readonly isPaged?: true
  /** The number of rows per page, if the contract's default is too long for a screen. */
  readonly rowsShown?: number
  readonly canWatch?: number
  readonly confirms?: true
  /** The words after the first argument belong to a program on another machine; also options that are not ours. */
  readonly passesWordsOn?: true | 'with options'
  /** The command opens no session by itself. */
  readonly isOffline?: true
  run(call: Call): Promise<ExitCode | void>
}

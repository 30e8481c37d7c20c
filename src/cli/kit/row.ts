/**
 * A command is a row: its words, the operation it calls, its help, and how the answer is shown. `list`, `show` and
 * `act` make rows that call one operation and print its answer; `custom` makes rows that do more.
 */
import { randomUUID } from 'node:crypto'
import type { CallableId, Reply } from '../../client/client.ts'
import { count, plural } from '../../view/number.ts'
import { withRetryHint } from './failure.ts'
import { callWith, checkChange } from './input.ts'
import { readList, sameCommand } from './page.ts'
import { confirm } from './question.ts'
import { describeRecord, factsOf, tableOf, titlesOf, type Columns } from './record.ts'
import type { Content } from './screen.ts'
import type { Who } from '../rental/session.ts'
import { exitCodes, type ExitCode } from './shell.ts'
import { watch } from './watch.ts'
import type { Call, Details, Input, Row, TargetSpec } from './row-type.ts'

const WATCH_SECONDS = 5

/** The rows of an answer: the answer itself, or the one list in it. */
type Item<R> =
  R extends ReadonlyArray<infer T>
    ? T
    : { [K in keyof R]: NonNullable<R[K]> extends ReadonlyArray<infer T> ? T : never }[keyof R]

export interface ListRow<T, Extra, Options, Target> extends Details {
  readonly target?: TargetSpec<Target>
  readonly columns: Columns<T, Extra>
  /** These columns are shown only with --wide. */
  readonly wide?: Columns<T, Extra>
  /** The noun for one row (default: from the name of the list). */
  readonly noun?: string
  /** The next step if a filter matches nothing. */
  readonly unmatched?: string
  /** Text for an empty list without a filter: the next step, all lines, or a function of the call. */
  readonly empty?: string | readonly string[] | ((call: Call<Options>) => readonly string[] | undefined)
  readonly filter?: (row: T, options: Options) => boolean
  /** Whether the table shows a row. JSON output contains all rows. */
  readonly isShown?: (row: T, options: Options, extra: Extra) => boolean
  /** More data for the columns. Not read for --json. */
  readonly read?: (call: Call<Options>, rows: readonly T[]) => Promise<Extra>
  /** A line after the number of rows. */
  readonly hint?: string | ((rows: readonly T[], call: Call<Options>, extra: Extra) => string)
  readonly below?: (rows: readonly T[], call: Call<Options>, extra: Extra) => readonly Content[]
  readonly rowsShown?: number
}

export function list<Op extends CallableId, Extra = undefined, Options = unknown, Target = unknown>(
  command: string,
  operation: Op,
  description: string,
  row: ListRow<Item<Reply<Op>>, Extra, Options, Target>,
): Row {
  type T = Item<Reply<Op>>
  const {
    columns,
    wide = [],
    noun: named,
    empty: _,
    unmatched: __,
    filter,
    isShown,
    read,
    hint,
    below,
    ...details
  } = row
  const wideTitles = titlesOf(wide).map((title) => title.toLowerCase())
  return {
    command,
    operation,
    description,
    ...details,
    target: row.target as TargetSpec<unknown> | undefined,
    isPaged: true,
    canWatch: WATCH_SECONDS,
    options: {
      ...row.options,
      ...(wide.length === 0 ? {} : { '--wide': `show more columns: ${wideTitles.join(', ')}` }),
    },
    run: async (anyCall) => {
      const call = anyCall as Call<Options & { wide?: true }>
      const { session, options } = call
      await watch(call, async () => {
        const page = await readList<T>(call, operation, (one) => filter === undefined || filter(one, options))
        if (session.json) return { onWire: page.onWire, content: [] }
        const extra = (page.rows.length === 0 ? undefined : await read?.(call, page.rows)) as Extra
        const noun = named ?? page.noun
        const content = (): Content[] => {
          if (page.rows.length === 0 && page.next === undefined) return [...emptyLines(call, noun, row)]
          const rows = page.rows.filter((one) => isShown === undefined || isShown(one, options, extra))
          const isWide = options.wide === true
          const more = typeof hint === 'function' ? hint(rows, call, extra) : (hint ?? '')
          return [
            { ...tableOf(rows, isWide ? [...columns, ...wide] : columns, extra), isWide },
            '',
            page.next ?? `${count(rows.length, noun)}${more === '' ? '' : `. ${more}`}`,
            ...(below?.(page.rows, call, extra) ?? []),
          ]
        }
        return { onWire: page.onWire, content: content() }
      })
    },
  }
}

function emptyLines<Options>(
  call: Call<Options>,
  noun: string,
  { empty, unmatched }: Pick<ListRow<never, never, Options, never>, 'empty' | 'unmatched'>,
): readonly Content[] {
  const nextStep = typeof empty === 'function' ? empty(call) : empty
  if (typeof empty === 'function' && typeof nextStep === 'object') return nextStep
  if (Object.keys(call.input.parts.query ?? {}).length > 0) return [`No ${plural(noun)} match.`, unmatched]
  return typeof nextStep === 'object' ? nextStep : [`There are no ${plural(noun)}.`, nextStep]
}

export interface ShowRow<R, Options, Target> extends Details {
  readonly target?: TargetSpec<Target>
  readonly facts?: Columns<R, Call<Options, Target>>
  /** Content below the facts. Without facts and content, every field is shown. */
  readonly content?: (reply: R, call: Call<Options, Target>) => readonly Content[] | Promise<readonly Content[]>
  /** The JSON output, if it has more than the operation's answer. */
  readonly onWire?: (reply: R, call: Call<Options, Target>) => Promise<unknown>
  /** Whether the answer says that something is wrong. The exit code is then 1. */
  readonly isWrong?: (reply: R) => boolean
  readonly timeoutMs?: number
}

export function show<Op extends CallableId, Options = unknown, Target = unknown>(
  command: string,
  operation: Op,
  description: string,
  row: ShowRow<Reply<Op>, Options, Target>,
): Row {
  const { facts, content, onWire, isWrong, timeoutMs, ...details } = row
  return {
    command,
    operation,
    description,
    ...details,
    target: row.target as TargetSpec<unknown> | undefined,
    canWatch: WATCH_SECONDS,
    run: async (anyCall) => {
      const call = anyCall as Call<Options, Target>
      let outcome: ExitCode = exitCodes.ok
      await watch(call, async () => {
        const reply = await send(call, operation, timeoutMs)
        outcome = isWrong?.(reply) === true ? exitCodes.failed : exitCodes.ok
        const wire = onWire === undefined ? reply : await onWire(reply, call)
        if (call.session.json) return { onWire: wire, content: [] }
        if (facts === undefined && content === undefined)
          return { onWire: wire, content: describeRecord(reply as object) }
        const above = facts === undefined ? [] : factsOf(reply, facts, call)
        return { onWire: wire, content: [...above, ...((await content?.(reply, call)) ?? [])] }
      })
      return outcome
    },
  }
}

/** Shows the thing that the argument names, if no operation reads a single one. */
export function detail<Target>(
  command: string,
  target: TargetSpec<Target>,
  description: string,
  row: Details & { readonly facts: Columns<Target> },
): Row {
  const { facts, ...details } = row
  return {
    command,
    description,
    ...details,
    target: target as TargetSpec<unknown>,
    canWatch: WATCH_SECONDS,
    run: (call) =>
      watch(call, async () => {
        const thing = await target.find(call.client, String(call.args[0]))
        return { onWire: thing, content: factsOf(thing, facts, call) }
      }),
  }
}

export interface ActRow<R, Options, Target> extends Details {
  readonly target?: TargetSpec<Target>
  /** A question to ask unless --yes is given. undefined: there is nothing to confirm. */
  readonly confirm?: (call: Call<Options, Target>) => Promise<string | undefined> | string | undefined
  /** Checks what flags cannot check, and completes the input. */
  readonly prepare?: (call: Call<Options, Target>) => Promise<Input> | Input
  /** Waits until the requested change has happened. Returns the final answer. */
  readonly follow?: (reply: R, call: Call<Options, Target>) => Promise<R>
  /** The result, in a sentence or more. */
  readonly done: (reply: R, call: Call<Options, Target>) => string | readonly Content[]
  /** The JSON output, if the answer alone says too little. */
  readonly onWire?: (reply: R, call: Call<Options, Target>) => unknown
  readonly isWrong?: (reply: R, call: Call<Options, Target>) => boolean
  /** The timeout of an operation that takes long. */
  readonly timeoutMs?: number
  /** With --dry-run: prints what would happen once the input is checked, and changes nothing. */
  readonly dryRun?: (call: Call<Options, Target>) => Promise<void>
}

export function act<Op extends CallableId, Options = unknown, Target = unknown>(
  command: string,
  operation: Op,
  description: string,
  row: ActRow<Reply<Op>, Options, Target>,
): Row {
  const { confirm: question, prepare, follow, done, onWire, isWrong, timeoutMs, dryRun, ...details } = row
  return {
    command,
    operation,
    description,
    ...details,
    sends: true,
    target: row.target as TargetSpec<unknown> | undefined,
    ...(question === undefined ? {} : { confirms: true }),
    run: async (anyCall) => {
      const typedCall = anyCall as Call<Options & { yes?: true; dryRun?: true }, Target>
      const input = prepare === undefined ? typedCall.input : await prepare(typedCall)
      checkChange({ command, operation, ...details }, input)
      const call = { ...typedCall, input }
      if (dryRun !== undefined && typedCall.options.dryRun === true) {
        await dryRun(call)
        return exitCodes.ok
      }
      const text = await question?.(call)
      if (text !== undefined) await confirm(call, text)
      const answer = await send(call, operation, timeoutMs)
      const reply = follow === undefined ? answer : await follow(answer, call)
      call.screen.show(onWire === undefined ? reply : onWire(reply, call), () => {
        const result = done(reply, call)
        return typeof result === 'string' ? [result] : result
      })
      return isWrong?.(reply, call) === true ? exitCodes.failed : exitCodes.ok
    },
  }
}

/** The input with more values in its body. */
export function withBody({ parts, ...input }: Input, more: object): Input {
  return { ...input, parts: { ...parts, body: { ...parts.body, ...more } } }
}

export interface CustomRow<Options, Target>
  extends Details, Pick<Row, 'isPaged' | 'rowsShown' | 'canWatch' | 'passesWordsOn' | 'isOffline' | 'confirms'> {
  readonly whoOf?: ((options: Options) => Who) | undefined
  /** The operation from which the command takes its access, and the fields in `only` as flags. */
  readonly operation?: CallableId
  readonly target?: TargetSpec<Target>
  run(call: Call<Options, Target>): Promise<ExitCode | void>
}

export function custom<Options = unknown, Target = unknown>(
  command: string,
  description: string,
  row: CustomRow<Options, Target>,
): Row {
  return {
    command,
    description,
    only: [],
    isCustom: true,
    ...row,
    target: row.target as TargetSpec<unknown> | undefined,
    whoOf: row.whoOf,
    run: (call) => row.run(call as Call<Options, Target>),
  }
}

/**
 * Calls an operation with the input of the command line. A create carries an idempotency key, so that a retry does not
 * repeat it.
 */
async function send<Op extends CallableId>(call: Call, operation: Op, timeoutMs?: number): Promise<Reply<Op>> {
  const { client, input, session, command } = call
  const reply = (more: object): Promise<Reply<Op>> => callWith(client, operation, { ...input.parts, ...more })
  if (input.isIdempotent !== true) return reply(timeoutMs === undefined ? {} : { timeoutMs })
  const { idempotencyKey = randomUUID() } = call.options as { idempotencyKey?: string }
  return withRetryHint(reply({ idempotencyKey }), session, idempotencyKey, sameCommand(command))
}

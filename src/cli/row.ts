/**
 * A command is a row: where it stands in the tree, the operation it calls, and how its answer reads. `list`, `show` and
 * `act` make the rows that call one operation and print its answer; `custom` the ones that do more than that.
 */
import { count } from '../view/number.ts'
import { randomUUID } from 'node:crypto'
import type { CallableId, Reply } from '../client/client.ts'
import { withRetryHint } from './failure.ts'
import { callWith, checkChange } from './input.ts'
import { readList, sameCommand } from './page.ts'
import { confirm } from './question.ts'
import { table, type Cell, type Column } from './screen.ts'
import type { Who } from './session.ts'
import { exitCodes, type ExitCode } from './shell.ts'
import { watch } from './watch.ts'
import type { Call, Input, Place, Row, Target } from './row-type.ts'

const WATCH_SECONDS = 5

/** The names of the lists in an answer. */
type ListKey<R> = { [K in keyof R]: NonNullable<R[K]> extends readonly unknown[] ? K : never }[keyof R]
type Item<R, K> =
  R extends ReadonlyArray<infer T>
    ? T
    : K extends keyof R
      ? NonNullable<R[K]> extends ReadonlyArray<infer T>
        ? T
        : never
      : never

export interface ListColumn<T, Extra> extends Column {
  readonly of: (row: T, extra: Extra) => Cell
  /** Only with --wide. */
  readonly wide?: true
}

export interface ListRow<Op extends CallableId, K, Extra, Options> extends Place {
  readonly operation: Op
  /** The list in the answer. Absent: the answer is the list. */
  readonly rows?: K & ListKey<Reply<Op>>
  readonly target?: Target<never>
  readonly columns: ReadonlyArray<ListColumn<Item<Reply<Op>, K>, Extra>>
  /** Noun for the last line: `API key`. */
  readonly noun: string
  /** Text for an empty list. */
  readonly empty: readonly string[] | ((call: Call<Options>) => readonly string[])
  readonly filter?: (row: Item<Reply<Op>, K>, options: Options) => boolean
  /** Leaves a row out of the table. Programs get it all the same. */
  readonly isShown?: (row: Item<Reply<Op>, K>, options: Options, extra: Extra) => boolean
  /** More data for the columns. Not read for --json. */
  readonly read?: (call: Call<Options>, rows: ReadonlyArray<Item<Reply<Op>, K>>) => Promise<Extra>
  /** Follows the number of rows. */
  readonly hint?: string | ((rows: ReadonlyArray<Item<Reply<Op>, K>>, call: Call<Options>, extra: Extra) => string)
  /** Lines below. */
  readonly below?: (rows: ReadonlyArray<Item<Reply<Op>, K>>, call: Call<Options>, extra: Extra) => readonly string[]
  readonly watchSeconds?: number
  readonly rowsShown?: number
}

export function list<Op extends CallableId, const K = undefined, Extra = undefined, Options = unknown>(
  row: ListRow<Op, K, Extra, Options>,
): Row {
  type T = Item<Reply<Op>, K>
  const { columns, noun, empty, filter, isShown, read, hint, below, watchSeconds = WATCH_SECONDS, ...place } = row
  const hasWide = columns.some(({ wide }) => wide === true)
  return {
    ...place,
    target: row.target as Target<unknown> | undefined,
    isPaged: true,
    canWatch: watchSeconds,
    options: [...(row.options ?? []), ...(hasWide ? [{ flag: '--wide', help: wideHelp(columns) }] : [])],
    run: async (given) => {
      const call = given as Call<Options & { wide?: true; json?: true }>
      const { screen, session, options } = call
      await watch(call, async () => {
        const page = await readList<T>(call, row.operation, row.rows as string | undefined, (one) =>
          filter === undefined ? true : filter(one, options),
        )
        const extra = (session.json || page.rows.length === 0 ? undefined : await read?.(call, page.rows)) as Extra
        const lines = (): string[] => {
          if (page.rows.length === 0 && page.next === undefined) {
            return [...(typeof empty === 'function' ? empty(call) : empty)]
          }
          const shown = columns.filter(({ wide }) => options.wide === true || wide !== true)
          const rows = page.rows.filter((one) => isShown === undefined || isShown(one, options, extra))
          const more = typeof hint === 'function' ? hint(rows, call, extra) : (hint ?? '')
          return [
            ...table(
              options.wide === true ? { ...screen, columns: undefined } : screen,
              shown,
              rows.map((one) => shown.map(({ of }) => of(one, extra))),
            ),
            '',
            page.next ?? `${count(rows.length, noun)}${more === '' ? '' : `. ${more}`}`,
            ...(below?.(page.rows, call, extra) ?? []),
          ]
        }
        return { onWire: page.onWire, lines: session.json ? [] : lines() }
      })
    },
  }
}

function wideHelp(columns: ReadonlyArray<{ readonly title: string; readonly wide?: true }>): string {
  const titles = columns.filter(({ wide }) => wide === true).map(({ title }) => title.toLowerCase())
  return `show more columns: ${titles.join(', ')}`
}

export interface ShowRow<Op extends CallableId, Options, Found> extends Place {
  readonly operation: Op
  readonly target?: Target<Found>
  readonly fixed?: Readonly<Record<string, unknown>>
  /** Lines made of `fields`, `table` and text. */
  readonly lines: (reply: Reply<Op>, call: Call<Options, Found>) => readonly string[] | Promise<readonly string[]>
  /** The answer as programs get it, where it is more than the operation's. */
  readonly onWire?: (reply: Reply<Op>, call: Call<Options, Found>) => Promise<unknown>
  /** Exit code 1 where the answer says that something is wrong. */
  readonly isWrong?: (reply: Reply<Op>) => boolean
  readonly timeoutMs?: number
  readonly watchSeconds?: number
}

export function show<Op extends CallableId, Options = unknown, Found = unknown>(row: ShowRow<Op, Options, Found>): Row {
  const { lines, onWire, isWrong, timeoutMs, watchSeconds = WATCH_SECONDS, ...place } = row
  return {
    ...place,
    target: row.target as Target<unknown> | undefined,
    canWatch: watchSeconds,
    run: async (given) => {
      const call = given as Call<Options & { watch?: true }, Found>
      let outcome: ExitCode = exitCodes.ok
      await watch(call, async () => {
        const reply = await send(call, row.operation, timeoutMs)
        outcome = isWrong?.(reply) === true ? exitCodes.failed : exitCodes.ok
        const shown = call.session.json ? [] : [...(await lines(reply, call))]
        return { onWire: onWire === undefined ? reply : await onWire(reply, call), lines: shown }
      })
      return outcome
    },
  }
}

/** Shows the thing that the argument names, where no operation reads just one. */
export function detail<Found>(
  row: Place & { readonly target: Target<Found>; readonly lines: (found: Found, call: Call) => readonly string[] },
): Row {
  const { lines, ...place } = row
  return {
    ...place,
    target: row.target as Target<unknown>,
    canWatch: WATCH_SECONDS,
    run: async (call) => {
      await watch(call, async () => {
        const found = await row.target.find(call.client, String(call.args[0]))
        return { onWire: found, lines: lines(found, call) }
      })
    },
  }
}

export interface ActRow<Op extends CallableId, Options, Found> extends Place {
  readonly operation: Op
  readonly only?: readonly string[]
  readonly target?: Target<Found>
  /** Values of the body that the command stands for: `enable` is `{ enabled: true }`. */
  readonly fixed?: Readonly<Record<string, unknown>>
  /** Asks first, unless --yes is given. undefined: nothing to ask about. */
  readonly confirm?: (call: Call<Options, Found>) => Promise<string | undefined> | string | undefined
  /** Checks what the flags cannot, and completes the input. */
  readonly prepare?: (call: Call<Options, Found>) => Promise<Input> | Input
  /** The result, in one or more sentences. */
  readonly done: (reply: Reply<Op>, call: Call<Options, Found>) => string | readonly string[]
  /** The answer as programs get it, where it says too little. */
  readonly onWire?: (reply: Reply<Op>, call: Call<Options, Found>) => unknown
  readonly isWrong?: (reply: Reply<Op>, call: Call<Options, Found>) => boolean
}

export function act<Op extends CallableId, Options = unknown, Found = unknown>(row: ActRow<Op, Options, Found>): Row {
  const { confirm: question, prepare, done, onWire, isWrong, ...place } = row
  return {
    ...place,
    sends: true,
    target: row.target as Target<unknown> | undefined,
    ...(question === undefined ? {} : { confirms: true }),
    run: async (given) => {
      const asked = given as Call<Options & { yes?: true }, Found>
      const input = prepare === undefined ? asked.input : await prepare(asked)
      checkChange(row, input)
      const call = { ...asked, input }
      const text = await question?.(call)
      if (text !== undefined) await confirm(call.shell, text, call.options.yes === true)
      const reply = await send(call, row.operation)
      call.screen.show(onWire === undefined ? reply : onWire(reply, call), () => [done(reply, call)].flat())
      return isWrong?.(reply, call) === true ? exitCodes.failed : exitCodes.ok
    },
  }
}

export interface CustomRow<Options, Found>
  extends Place, Pick<Row, 'only' | 'isPaged' | 'rowsShown' | 'canWatch' | 'passesWordsOn' | 'isOffline' | 'confirms'> {
  readonly whoOf?: (options: Options) => Who
  /** Lends its fields as flags. */
  readonly operation?: CallableId
  readonly target?: Target<Found>
  run(call: Call<Options, Found>): Promise<ExitCode | void>
}

export function custom<Options = unknown, Found = unknown>(row: CustomRow<Options, Found>): Row {
  return {
    only: [],
    isCustom: true,
    ...row,
    target: row.target as Target<unknown> | undefined,
    whoOf: row.whoOf,
    run: (call) => row.run(call as Call<Options, Found>),
  }
}

/** Calls an operation with what the command line gave. A create carries a key, so that it is never done twice. */
async function send<Op extends CallableId>(call: Call, operation: Op, timeoutMs?: number): Promise<Reply<Op>> {
  const { client, input, session, command } = call
  const reply = (more: object): Promise<Reply<Op>> => callWith(client, operation, { ...input.parts, ...more })
  if (input.isIdempotent !== true) return reply(timeoutMs === undefined ? {} : { timeoutMs })
  const { idempotencyKey = randomUUID() } = call.options as { idempotencyKey?: string }
  return withRetryHint(reply({ idempotencyKey }), session, idempotencyKey, sameCommand(command))
}

/**
 * A form over a schema of the contract. Values are text as typed; `body` turns them into the request. The schema's
 * errors show at their fields after the first attempt, the server's after its answer.
 */
import { useRef, useState, type FormEvent } from 'react'
import type { z } from 'zod'
import type { BodyInputOf } from '../../src/contract/endpoint.ts'
import type { Api } from '../../src/contract/api.ts'
import { issueText } from '../../src/contract/issue-text.ts'
import type { CallableId, CallInput, Reply } from '../../src/client/client.ts'
import { ApiError, type ClientError } from '../../src/client/error.ts'
import { useAction } from '../api/query.ts'
import { useBodySchema } from './schema.ts'

type Named<Values> = keyof Values & string
type Texts<Values> = { [name in Named<Values>]: Values[name] extends string ? name : never }[Named<Values>]
type Flags<Values> = { [name in Named<Values>]: Values[name] extends boolean ? name : never }[Named<Values>]
interface Typed {
  readonly target: { readonly value: string }
}
interface Ticked {
  readonly target: { readonly checked: boolean }
}

export interface Form<Values> {
  readonly values: Values
  readonly set: (change: Partial<Values>) => void
  /** Props of a `TextField`, `TextArea` or `SelectField`. */
  readonly text: (name: Texts<Values>) => { value: string; error: string | undefined; onChange: (event: Typed) => void }
  /** Props of a `CheckField`. */
  readonly check: (name: Flags<Values>) => { checked: boolean; onChange: (event: Ticked) => void }
  /** Returns the error to show at a field, and records that the field shows it. */
  readonly error: (name: Named<Values>) => string | undefined
  /** Returns the error at a path of the body whose field has another name. */
  readonly errorAt: (path: string) => string | undefined
  /** Errors that no field shows. Read after the fields are rendered. */
  readonly elsewhere: () => { readonly error: ClientError | null; readonly messages: readonly string[] }
  readonly isValid: boolean
  readonly isDirty: boolean
  readonly isPending: boolean
  readonly submit: (event: FormEvent) => void
}

/** The part of a zod schema that a form uses. */
interface Schema<Body> {
  safeParse(
    body: Body,
    params: { readonly error: typeof issueText },
  ): {
    readonly error?: { readonly issues: ReadonlyArray<Pick<z.core.$ZodIssue, 'path' | 'message'>> } | undefined
  }
}

interface FormOptions<Values, Body> {
  readonly initial: Values | (() => Values)
  readonly body: (values: Values) => Body
  readonly schema?: Schema<NoInfer<Body>> | undefined
  /** Checks that the schema cannot make. */
  readonly check?: ((values: Values) => { readonly [name in keyof Values]?: string | undefined }) | undefined
  /** The place of a field in the body, if not under its own name. */
  readonly paths?: { readonly [name in keyof Values]?: string } | undefined
  readonly action: { readonly error: ClientError | null; readonly isPending: boolean }
  readonly send: (body: Body, values: Values) => void
}

export function useForm<Values extends object, Body>(options: FormOptions<Values, Body>): Form<Values> {
  const { action, paths } = options
  const [initial] = useState(options.initial)
  const [values, setValues] = useState(initial)
  const [isTried, setTried] = useState(false)
  const lastRequest = useRef<{ readonly values: Values; readonly body: Body }>(undefined)
  const body = options.body(values)
  const issues = options.schema?.safeParse(body, { error: issueText }).error?.issues ?? []
  const ownFaults: Readonly<Record<string, string | undefined>> = options.check?.(values) ?? {}
  const isValid = issues.length === 0 && Object.values(ownFaults).every((fault) => fault === undefined)
  const places = new Set<string>()
  const pathOf = (name: Named<Values>): string => paths?.[name] ?? name
  const errorAt = (path: string): string | undefined => {
    places.add(path)
    const local = isTried ? issues.find((issue) => isAt(issue.path, path)) : undefined
    return (local ?? serverIssues(action.error).find((issue) => isAt(issue.path, path)))?.message
  }
  const error = (name: Named<Values>): string | undefined => {
    const other = errorAt(pathOf(name))
    return (isTried ? ownFaults[name] : undefined) ?? other
  }
  const set = (change: Partial<Values>): void => setValues((previous) => ({ ...previous, ...change }))
  const isShown = (issue: { readonly path: readonly PropertyKey[] }): boolean =>
    [...places].some((path) => isAt(issue.path, path))
  return {
    values,
    set,
    text: (name) => ({
      value: values[name] as string,
      error: error(name),
      onChange: (event) => set({ [name]: event.target.value } as Partial<Values>),
    }),
    check: (name) => ({
      checked: values[name] as boolean,
      onChange: (event) => set({ [name]: event.target.checked } as Partial<Values>),
    }),
    error,
    errorAt,
    elsewhere: () => {
      const serverErrors = serverIssues(action.error)
      return {
        error: serverErrors.length > 0 && serverErrors.every(isShown) ? null : action.error,
        messages: isTried
          ? issues.filter((issue) => !isShown(issue)).map(({ path, message }) => `${path.join('.')}: ${message}`)
          : [],
      }
    },
    isValid,
    isDirty: JSON.stringify(values) !== JSON.stringify(initial),
    isPending: action.isPending,
    submit: (event) => {
      event.preventDefault()
      setTried(true)
      if (!isValid || action.isPending) return
      // A retry after a lost response must send the same body, including times relative to now.
      if (lastRequest.current?.values !== values || !isOutcomeUnknown(action.error))
        lastRequest.current = { values, body }
      options.send(lastRequest.current.body, values)
    },
  }
}

function isOutcomeUnknown(error: ClientError | null): boolean {
  return error !== null && !(error instanceof ApiError && error.status < 500)
}

function serverIssues(error: ClientError | null): ApiError['issues'] {
  return error instanceof ApiError ? error.issues : []
}

/** Tells whether an issue belongs to a path: a list or group has one field for everything in it. */
function isAt(issue: readonly PropertyKey[], path: string): boolean {
  const at = issue.join('.')
  return at === path || at.startsWith(`${path}.`)
}

/** Optional parts may be undefined, which JSON leaves out; a missing part is the schema's error. */
export type Loose<T> = T extends unknown ? { readonly [name in keyof T]: T[name] | undefined } : never

type Addressed<Op extends CallableId> = Op extends unknown
  ? Omit<CallInput<Op>, 'body' | 'idempotencyKey' | 'signal' | 'timeoutMs'>
  : never

export interface CallFormOptions<Op extends CallableId, Values> extends Omit<
  FormOptions<Values, Loose<NonNullable<BodyInputOf<Api[Op]>>>>,
  'schema' | 'action' | 'send'
> {
  /** Reads that the operation makes stale. */
  readonly refreshes: readonly CallableId[]
  /** Path parameters and query. */
  readonly input?: Addressed<Op> | ((values: Values) => Addressed<Op>) | undefined
  readonly onDone: (reply: Reply<Op>, values: Values) => void
}

/** A form that sends one operation. */
export function useCallForm<Op extends CallableId, Values extends object>(
  operation: Op,
  { refreshes, input, onDone, ...options }: CallFormOptions<Op, Values>,
): Form<Values> {
  const action = useAction(operation, refreshes)
  const schema = useBodySchema(operation)
  return useForm({
    ...options,
    schema,
    action,
    send: (body, values) => {
      const address = typeof input === 'function' ? input(values) : input
      action.mutate({ ...address, body } as unknown as CallInput<Op>, { onSuccess: (reply) => onDone(reply, values) })
    },
  })
}

/** API calls as React hooks, typed by the contract: `useCall` reads, `useAction` changes and refreshes stale reads. */
import {
  keepPreviousData,
  MutationCache,
  QueryCache,
  QueryClient,
  useMutation,
  useQuery,
  type UseMutationResult,
  type UseQueryResult,
} from '@tanstack/react-query'
import { useState } from 'react'
import type { CallableId, CallInput, Reply } from '../../src/client/client.ts'
import { ApiError, type ClientError } from '../../src/client/error.ts'
import { routes } from '../../src/contract/routes.ts'
import { client } from './client.ts'
import { makeOnceKey, nextOnceKey } from './once.ts'
import { sendWithProof } from './step-up.ts'

/** Events report changes; without one, data is refreshed after this time. */
const STALE_MS = 30_000
/** Collects events that arrive together. */
const TOGETHER_MS = 300

/** The session has ended: leaves the page and drops everything that was read. */
const leaveWhenSignedOut = (error: unknown, key: unknown): void => {
  // Public pages read these two to find out whether somebody is signed in.
  if (!isSignedOut(error) || key === 'getMe' || key === 'getPerson') return
  location.assign(`/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`)
}

export const queries = new QueryClient({
  queryCache: new QueryCache({ onError: (error, query) => leaveWhenSignedOut(error, query.queryKey[0]) }),
  mutationCache: new MutationCache({ onError: (error) => leaveWhenSignedOut(error, undefined) }),
  defaultOptions: {
    queries: {
      staleTime: STALE_MS,
      // The client retries reads itself, three attempts in total.
      retry: false,
      refetchOnWindowFocus: true,
      // A local server is reachable without a network, and requests must not be queued for later.
      networkMode: 'always',
    },
    mutations: { networkMode: 'always' },
  },
})

export function isSignedOut(error: unknown): boolean {
  return error instanceof ApiError && error.status === 401
}

interface CallOptions {
  /** Polls, for data that raises no events. */
  readonly everyMs?: number | undefined
  readonly enabled?: boolean | undefined
  /** Shows the last answer while another filter or page is read. */
  readonly keepsLast?: boolean | undefined
}

/** Cached under the operation and its input: `['listVolumes', {}]`. */
export function useCall<Op extends CallableId>(
  operation: Op,
  input?: CallInput<Op>,
  options: CallOptions = {},
): UseQueryResult<Reply<Op>, ClientError> {
  return useQuery<Reply<Op>, ClientError>({
    queryKey: [operation, input ?? {}],
    queryFn: ({ signal }) => call(operation, { ...input, signal } as CallInput<Op>),
    ...(options.everyMs === undefined ? {} : { refetchInterval: options.everyMs }),
    enabled: options.enabled ?? true,
    ...(options.keepsLast === true ? { placeholderData: keepPreviousData } : {}),
  })
}

/**
 * Calls an operation that changes something. `changes` names the reads that become stale. A create carries an
 * idempotency key, so that it happens once even if it is sent again after a lost answer.
 */
export function useAction<Op extends CallableId>(
  operation: Op,
  changes: readonly CallableId[] = [],
): UseMutationResult<Reply<Op>, ClientError, CallInput<Op>> {
  const [idempotencyKey, setKey] = useState(makeOnceKey)
  return useMutation<Reply<Op>, ClientError, CallInput<Op>>({
    mutationFn: (input) =>
      call(operation, routes[operation].idempotent === true ? { ...input, idempotencyKey } : input),
    onSuccess: () => refresh(changes),
    onSettled: (_, error) => setKey((key) => nextOnceKey(key, error)),
  })
}

/** Refreshes reads of these operations. Reads in progress are cancelled: they may predate the change. */
export async function refresh(operations: readonly CallableId[]): Promise<void> {
  await Promise.all(operations.map((operation) => queries.invalidateQueries({ queryKey: [operation] })))
}

const waiting = new Set<CallableId>()

/**
 * Refreshes after events: once per operation for many events, and after reads in progress, which may have missed the
 * event. Those are not cancelled: with constant events a long list would never finish.
 */
export function readSoon(operations: readonly CallableId[], togetherMs: number = TOGETHER_MS): void {
  for (const operation of operations) {
    if (waiting.has(operation)) continue
    waiting.add(operation)
    setTimeout(() => void readAfterOthers(operation), togetherMs)
  }
}

async function readAfterOthers(operation: CallableId): Promise<void> {
  const running = queries.getQueryCache().findAll({ queryKey: [operation], fetchStatus: 'fetching' })
  await Promise.allSettled(running.map(async (query) => query.promise))
  waiting.delete(operation)
  await queries.invalidateQueries({ queryKey: [operation] }, { cancelRefetch: false })
}

/** Refreshes everything, after a gap in the events. */
export async function readEverything(): Promise<void> {
  await queries.invalidateQueries({}, { cancelRefetch: false })
}

/** Calls an operation outside of components. If it needs a recent sign-in or a passkey, it is sent again after one. */
export function call<Op extends CallableId>(operation: Op, input: CallInput<Op>): Promise<Reply<Op>> {
  return sendWithProof(() =>
    (client.call as (operation: Op, input: CallInput<Op>) => Promise<Reply<Op>>)(operation, input),
  )
}

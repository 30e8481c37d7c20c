/**
 * Calls as React hooks. `useCall` reads and keeps the answer fresh, `useAction` changes something and then has read
 * again what it may have changed. Both are typed by the contract; a page never writes a path.
 */
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
import { ApiError, isClientError, type ClientError } from '../../src/client/error.ts'
import { api } from '../../src/contract/api.ts'
import type { Endpoint } from '../../src/contract/endpoint.ts'
import { client } from './client.ts'
import { makeOnceKey, nextOnceKey } from './once.ts'

/** Events say when something has changed; an answer that nothing was heard about is read again after this long. */
const STALE_MS = 30_000
const RETRIES = 2
/** Events that come together are read for together. */
const TOGETHER_MS = 300

/** Whatever the page was doing, nobody is signed in any more: everything that was read is forgotten with the page. */
const leaveWhenSignedOut = (error: unknown, key: unknown): void => {
  if (!isSignedOut(error) || key === 'getMe') return
  location.assign(`/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`)
}

export const queries = new QueryClient({
  queryCache: new QueryCache({ onError: (error, query) => leaveWhenSignedOut(error, query.queryKey[0]) }),
  mutationCache: new MutationCache({ onError: (error) => leaveWhenSignedOut(error, undefined) }),
  defaultOptions: {
    queries: {
      staleTime: STALE_MS,
      retry: (count, error) => count < RETRIES && mayGoBetter(error),
      refetchOnWindowFocus: true,
      // A server on this very machine is there without any network; and what cannot be sent is not kept for later.
      networkMode: 'always',
    },
    mutations: { networkMode: 'always' },
  },
})

function mayGoBetter(error: unknown): boolean {
  if (error instanceof ApiError) return error.status >= 500
  return isClientError(error) && error.kind !== 'aborted'
}

export function isSignedOut(error: unknown): boolean {
  return error instanceof ApiError && error.status === 401
}

interface CallOptions {
  /** For what is measured rather than told by events: read again this often. */
  readonly everyMs?: number | undefined
  /** False: not yet, something else must be known first. */
  readonly enabled?: boolean | undefined
  /** Shows the last answer while another filter or page is read. */
  readonly keepsLast?: boolean | undefined
}

/** Reads. The key of the cache is the operation and its input: `['listVolumes', {}]`. */
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
 * Changes something. `changes` names the reads that it makes stale. Creates carry an idempotency key, so that one sent
 * again after a lost answer happens once.
 */
export function useAction<Op extends CallableId>(
  operation: Op,
  changes: readonly CallableId[] = [],
): UseMutationResult<Reply<Op>, ClientError, CallInput<Op>> {
  const [idempotencyKey, setKey] = useState(makeOnceKey)
  const endpoint: Endpoint = api[operation]
  return useMutation<Reply<Op>, ClientError, CallInput<Op>>({
    mutationFn: (input) => call(operation, endpoint.idempotent === true ? { ...input, idempotencyKey } : input),
    onSuccess: () => refresh(changes),
    onSettled: (_, error) => setKey((key) => nextOnceKey(key, error)),
  })
}

/**
 * Reads again what is on the screen of these operations, and what is not when it is next needed. A read that has begun
 * before the change is given up: its answer may be from before.
 */
export async function refresh(operations: readonly CallableId[]): Promise<void> {
  await Promise.all(operations.map((operation) => queries.invalidateQueries({ queryKey: [operation] })))
}

const waiting = new Set<CallableId>()

/**
 * As `refresh`, for what is told by events: each operation once for many events, and after a read that has begun, which
 * may have missed the event. Such a read is not cut short: a long list under a busy house would never be read to its end.
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

/** Reads again all that is on the screen: nobody knows what has happened meanwhile. */
export async function readEverything(): Promise<void> {
  await queries.invalidateQueries({}, { cancelRefetch: false })
}

/** One call, outside of any component. */
export function call<Op extends CallableId>(operation: Op, input: CallInput<Op>): Promise<Reply<Op>> {
  return (client.call as (operation: Op, input: CallInput<Op>) => Promise<Reply<Op>>)(operation, input)
}

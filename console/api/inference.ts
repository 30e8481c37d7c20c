/** Shared by the pages that call models: available models and the cost of requests. */
import { useQueries, type UseQueryResult } from '@tanstack/react-query'
import type { NanoUsd } from '../../src/base/money.ts'
import type { Reply } from '../../src/client/client.ts'
import { isClientError, TransportError, type ClientError } from '../../src/client/error.ts'
import { fetchCost } from '../../src/client/request-cost.ts'
import { client } from './client.ts'
import { isSignedOut, refresh, useCall } from './query.ts'

export type Model = Reply<'listModels'>['data'][number]
export type ModelKind = NonNullable<Model['kind']>

/** Models raise no events. */
const MODELS_EVERY_MS = 5_000
/** The interval at which costs are asked for that are still unknown after the first attempts. */
const COST_EVERY_MS = 3_000
const SESSION_BYTES = 16

export function useModels(): UseQueryResult<Reply<'listModels'>, ClientError> {
  return useCall('listModels', undefined, { everyMs: MODELS_EVERY_MS })
}

export type CostAnswer = UseQueryResult<NanoUsd | null>

/** Costs in the order of the ids. null: not known yet; polled. */
export function useCosts(requestIds: readonly string[]): CostAnswer[] {
  return useQueries({
    queries: requestIds.map((requestId) => ({
      queryKey: ['requestCost', requestId],
      queryFn: async ({ signal }: { signal: AbortSignal }) => (await fetchCost(client, requestId, signal)) ?? null,
      enabled: requestId !== '',
      staleTime: Number.POSITIVE_INFINITY,
      refetchInterval: (query: { state: { data?: NanoUsd | null | undefined } }) =>
        query.state.data === null ? COST_EVERY_MS : (false as const),
    })),
  })
}

/** Refreshes costs after each request, however it ended: it may have been billed. */
export async function noteRequest(): Promise<void> {
  await refresh(['getCustomerBalance', 'listInferenceRequests', 'getUsageSummary'])
}

/** The error to show. Redirects to sign-in when the session has ended. */
export function problemOf(error: unknown): ClientError {
  if (isSignedOut(error)) {
    location.assign(`/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`)
  }
  if (isClientError(error)) return error
  return new TransportError('garbled', `This page failed: ${error instanceof Error ? error.message : String(error)}`)
}

export function isStopped(error: unknown): boolean {
  return error instanceof TransportError && error.kind === 'aborted'
}

/** A conversation's id. `crypto.randomUUID` requires HTTPS. */
export function newSessionId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(SESSION_BYTES))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** A file of base64 data. */
export function fileOf(base64: string, type: 'image/png' | 'audio/mpeg'): Blob {
  const bytes = Uint8Array.from(atob(base64), (character) => character.codePointAt(0) ?? 0)
  return new Blob([bytes], { type })
}

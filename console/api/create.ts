/** Creates as a React hook: pages do not know that there is a key by which they happen once. */
import { useMutation, type UseMutationResult } from '@tanstack/react-query'
import { useState } from 'react'
import type { CallableId, CallInput, Reply } from '../../src/client/client.ts'
import type { ClientError } from '../../src/client/error.ts'
import { makeOnceKey, nextOnceKey } from './once.ts'
import { call, refresh } from './query.ts'

type CreateInput<Op extends CallableId> = Omit<CallInput<Op>, 'idempotencyKey'>

/** As `useAction`, for an operation that takes a key. What is sent again after a lost answer is made once. */
export function useCreate<Op extends CallableId>(
  operation: Op,
  changes: readonly CallableId[] = [],
): UseMutationResult<Reply<Op>, ClientError, CreateInput<Op>> {
  const [idempotencyKey, setKey] = useState(makeOnceKey)
  return useMutation<Reply<Op>, ClientError, CreateInput<Op>>({
    mutationFn: (input) => call(operation, { ...input, idempotencyKey } as CallInput<Op>),
    onSuccess: () => refresh(changes),
    onSettled: (_, error) => setKey((key) => nextOnceKey(key, error)),
  })
}

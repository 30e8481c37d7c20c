/**
 * An answer on its way: a skeleton of the size of what will come, the failure with a way to try again, or the answer.
 * An answer that is there stays while it is read again, also when that fails.
 */
import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import type { ClientError } from '../../src/client/error.ts'
import { ErrorNotice } from './error-notice.tsx'
import { Skeleton } from './skeleton.tsx'

interface AnswerProps<T> {
  readonly of: UseQueryResult<T, ClientError>
  /** Of the size of what will come, so that nothing moves. */
  readonly skeleton?: ReactNode
  readonly children: (value: T) => ReactNode
}

export function Answer<T>({ of, skeleton, children }: AnswerProps<T>) {
  if (of.data !== undefined) return children(of.data)
  if (of.error !== null) return <ErrorNotice error={of.error} onRetry={() => void of.refetch()} isRead />
  return skeleton ?? <Skeleton rows={4} />
}

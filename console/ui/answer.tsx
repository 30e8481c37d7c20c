/** A query's data, its skeleton, or its error with a retry. Data stays visible while it is refreshed, even if that fails. */
import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import type { ClientError } from '../../src/client/error.ts'
import { ErrorNotice } from './error-notice.tsx'
import { Skeleton } from './skeleton.tsx'

interface AnswerProps<T> {
  readonly of: UseQueryResult<T, ClientError>
  /** A placeholder as large as the content, so that nothing moves. */
  readonly skeleton?: ReactNode
  readonly children: (value: T) => ReactNode
}

export function Answer<T>({ of, skeleton, children }: AnswerProps<T>) {
  if (of.data !== undefined) return children(of.data)
  if (of.error !== null) return <ErrorNotice error={of.error} onRetry={() => void of.refetch()} isRead />
  return skeleton ?? <Skeleton rows={4} />
}

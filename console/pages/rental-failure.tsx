/** Why a machine has failed or hangs, and what to do: the first thing on its page. */
import type { ReactNode } from 'react'
import { time } from '../ui/format.ts'
import { reasonSentence, reasonTodo } from './rental-words.ts'

export function FailureNotice({ reason, message }: { reason: string; message: string | null }) {
  return (
    <Notice title={`It failed. ${reasonSentence(reason)}`} look="border-bad bg-bad-soft" titleLook="text-bad">
      {message !== null && <p>{message}</p>}
      <p>{reasonTodo(reason)} Nothing is charged for it any more.</p>
    </Notice>
  )
}

export function StuckNotice({ since }: { since: string }) {
  return (
    <Notice title="This takes longer than it should" look="border-warn bg-warn-soft" titleLook="text-warn">
      <p>Since {time(since)}. The operator can see it, and nothing is charged for the wait.</p>
    </Notice>
  )
}

interface NoticeProps {
  readonly title: string
  readonly look: string
  readonly titleLook: string
  readonly children: ReactNode
}

function Notice({ title, look, titleLook, children }: NoticeProps) {
  return (
    <div role="alert" className={`flex flex-col gap-1 rounded-md border px-4 py-3 text-sm ${look}`}>
      <p className={`font-medium ${titleLook}`}>{title}</p>
      {children}
    </div>
  )
}

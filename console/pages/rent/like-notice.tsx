/** Says that a form is filled in from another rental. */
import type { ReactNode } from 'react'
import { Button } from '../../ui/button.tsx'
import { Notice } from '../../ui/notice.tsx'
import { keptText, type Like } from './like.ts'

interface LikeNoticeProps {
  readonly like: Like
  readonly onDiscard: () => void
  /** Further remarks, such as that the order is for another machine. */
  readonly children?: ReactNode
}

export function LikeNotice({ like, onDiscard, children }: LikeNoticeProps) {
  const text = keptText(like)
  return (
    <Notice>
      <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2">
        <p>
          Renting again with the settings of <strong>{like.name}</strong>.{text !== undefined && ` Also kept: ${text}.`}{' '}
          {children}
        </p>
        <Button onClick={onDiscard}>Start over</Button>
      </div>
    </Notice>
  )
}

/** How a notification looks, in the list and in the bell. */
import type { Reply } from '../../../src/client/client.ts'
import { TextLink } from '../../ui/button.tsx'
import { cx } from '../../ui/class.ts'

type Notification = Reply<'listNotifications'>['notifications'][number]

const marks = { info: 'bg-info', warning: 'bg-warn', critical: 'bg-bad' } as const
const names = { info: 'Information', warning: 'Warning', critical: 'Critical' } as const

/** A dot; hollow once read. */
export function SeverityMark({ notification: { severity, read } }: { notification: Notification }) {
  return (
    <span
      role="img"
      aria-label={`${names[severity]}${read ? '' : ', unread'}`}
      className={cx('inline-block size-2 rounded-full', read ? 'bg-line-strong' : marks[severity])}
    />
  )
}

export function NotificationLink({ notification }: { notification: Notification }) {
  const { subject, title, read } = notification
  const className = read ? '' : 'font-medium'
  switch (subject.kind) {
    case 'rental':
      return (
        <TextLink to="/rentals/$id" params={{ id: subject.id }} className={className}>
          {title}
        </TextLink>
      )
    case 'volume':
      return (
        <TextLink to="/volumes" className={className}>
          {title}
        </TextLink>
      )
    case 'deployment':
      return (
        <TextLink to="/deployments/$id" params={{ id: subject.id }} className={className}>
          {title}
        </TextLink>
      )
    case 'budget':
      return (
        <TextLink to="/billing" search={{ tab: 'budgets' }} className={className}>
          {title}
        </TextLink>
      )
    case 'balance':
      return (
        <TextLink to="/billing" className={className}>
          {title}
        </TextLink>
      )
    default:
      return <span className={className}>{title}</span>
  }
}

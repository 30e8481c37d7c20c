/** Lists conditions that hold now, and unread notifications for operators. */
import type { UseQueryResult } from '@tanstack/react-query'
import type { Reply } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import { attentionOf } from '../../../src/view/attention.ts'
import { relativeTime } from '../../../src/view/time.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { TextLink } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { useNow } from '../../ui/now.ts'

const EVERY_MS = 10_000
const SHOWN = 5
const tones = { info: 'info', warning: 'warn', critical: 'bad' } as const
const labels = { info: 'Info', warning: 'Warning', critical: 'Critical' } as const

export function useUnread(): UseQueryResult<Reply<'listNotifications'>, ClientError> {
  return useCall('listNotifications', { query: { unread: true, limit: SHOWN } }, { everyMs: EVERY_MS })
}

export function Alerts() {
  const unread = useUnread()
  const summary = useCall('getOperatorSummary', undefined, { everyMs: EVERY_MS }).data
  const models = useCall('listOperatedModels', undefined, { everyMs: EVERY_MS }).data
  const conditions = summary === undefined || models === undefined ? [] : attentionOf(summary, models)
  const now = useNow()
  return (
    <Answer of={unread} skeleton={<div className="h-14" role="status" aria-label="Loading" />}>
      {({ notifications }) => {
        const total = notifications.length + conditions.length
        return (
          <Card
            title={total === 0 ? 'Nothing needs attention' : `Needs attention (${total})`}
            className={total === 0 ? undefined : 'border-warn'}
            actions={<TextLink to="/notifications">Notifications</TextLink>}
          >
            {total > 0 && (
              <ul className="grid gap-x-6 gap-y-3 text-sm lg:grid-cols-2">
                {conditions.slice(0, SHOWN).map(({ text, to }) => (
                  <li key={text} className="flex items-start gap-2">
                    <Badge tone="warn">Now</Badge>
                    <TextLink to={to}>{text}</TextLink>
                  </li>
                ))}
                {conditions.length > SHOWN && <li className="text-muted">and {conditions.length - SHOWN} more</li>}
                {notifications.map(({ id, severity, title, text, at }) => (
                  <li key={id} className="flex items-start gap-2">
                    <Badge tone={tones[severity]}>{labels[severity]}</Badge>
                    <div className="min-w-0">
                      <p className="font-medium">{title}</p>
                      <p className="line-clamp-2 text-muted">{text}</p>
                      <p className="text-xs text-muted">{relativeTime(at, now)}</p>
                    </div>
                  </li>
                ))}
              </ul>
            )}
          </Card>
        )
      }}
    </Answer>
  )
}

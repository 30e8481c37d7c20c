/** Lists conditions that hold now, and unread notifications for operators. */
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

export function Alerts() {
  const unread = useCall('listNotifications', { query: { unread: true, limit: SHOWN } }, { everyMs: EVERY_MS })
  const summary = useCall('getOperatorSummary', undefined, { everyMs: EVERY_MS }).data
  const models = useCall('listOperatedModels', undefined, { everyMs: EVERY_MS }).data
  const conditions = summary === undefined || models === undefined ? [] : attentionOf(summary, models)
  const now = useNow()
  return (
    <Card title="Alerts">
      <div className="min-h-40">
        <Answer of={unread} skeleton={<div className="h-40" />}>
          {({ notifications }) =>
            notifications.length + conditions.length === 0 ? (
              <p className="text-sm text-muted">Nothing needs attention.</p>
            ) : (
              <ul className="flex flex-col gap-3 text-sm">
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
            )
          }
        </Answer>
      </div>
    </Card>
  )
}

/** `berth operator mail`: the state of the mail server, and a test message. */
import { act, show } from '../kit/row.ts'
import type { Row } from '../kit/row-type.ts'

export const rows: readonly Row[] = [
  show('operator mail status', 'getMailStatus', 'show the mail server and outgoing email', {
    content: (status) => (status.enabled ? [] : ['Set BERTH_SMTP_URL and BERTH_MAIL_FROM to send email.']),
    facts: [
      { Server: ({ server }) => server ?? 'none', From: ({ from }) => from },
      'pending',
      'sent24h:Sent in 24 hours',
      'failed24h:Failed in 24 hours',
      'lastError',
      'lastErrorAt:At',
    ],
  }),
  act('operator mail test', 'sendTestMail', 'send a test email', {
    args: { '<address>': 'where to send it' },
    examples: ['berth operator mail test ada@example.com'],
    done: ({ message, reply }) => [`${message}.`, `The mail server answered: ${reply}`],
  }),
]

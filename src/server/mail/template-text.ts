/** The texts of messages with a template. They render without images, styles of the head or scripts. */
import { formatInstant } from '../../base/instant.ts'
import type { TemplateMail } from '../../domain/template-mail.ts'
import { html, type Markup } from '../console/markup.ts'
import { oneLine, pageOf, type MailContent } from './mail-message.ts'

/** The content of a message: sentences, then what to do, then a note in small print. */
interface Letter {
  readonly subject: string
  readonly lines: readonly string[]
  /** Shown large, to be typed or compared. */
  readonly code?: string
  readonly link?: { readonly label: string; readonly url: string }
  readonly note: string
}

export function writeTemplate(mail: TemplateMail, publicUrl: string): MailContent {
  const letter = letters[mail.template](mail as never, publicUrl)
  const { subject, lines, code, link, note } = letter
  const paragraphs = [
    ...lines,
    ...(code === undefined ? [] : [code]),
    ...(link === undefined ? [] : [`${link.label}: ${link.url}`]),
  ]
  return {
    subject: oneLine(`[Berth] ${subject}`),
    text: `${[...paragraphs, note].join('\n\n')}\n`,
    html: pageOf(bodyOf(letter)),
    headers: {},
  }
}

function bodyOf({ lines, code, link, note }: Letter): Markup {
  return html`${lines.map((line) => html`<p>${line}</p>`)}
    ${
      code === undefined
        ? undefined
        : html`<p style="font-size:28px;letter-spacing:4px;font-family:monospace;margin:20px 0">${code}</p>`
    }
    ${
      link === undefined
        ? undefined
        : html`<p style="margin:24px 0">
              <a href="${link.url}" style="background:#1452cc;color:#ffffff;padding:10px 18px;text-decoration:none"
                >${link.label}</a
              >
            </p>
            <p style="color:#5d6b7a;font-size:12px">${link.url}</p>`
    }
    <p style="margin-top:28px;color:#5d6b7a;font-size:12px">${note}</p>`
}

const letters: {
  readonly [Name in TemplateMail['template']]: (
    mail: Extract<TemplateMail, { template: Name }>,
    publicUrl: string,
  ) => Letter
} = {
  'sign-in-code': ({ code, browser, address, connects }, publicUrl) => ({
    subject: 'Your sign-in code',
    lines: [
      `Type this code at ${publicUrl} to sign in. It works for ten minutes, in the browser that asked for it.`,
      ...(connects === undefined
        ? []
        : [`It also connects ${connects}: whoever has signed in there in that browser is you here from then on.`]),
    ],
    code: `${code.slice(0, 4)} ${code.slice(4)}`,
    note: `It was asked for by ${browser} at ${address}. If that was not you, ignore this message, and tell the code to nobody.`,
  }),
  'new-sign-in': ({ method, browser, address, at }, publicUrl) => ({
    subject: 'New sign-in',
    lines: [`Somebody signed in as you ${method}, with ${browser} at ${address}, on ${formatInstant(at)}.`],
    link: { label: 'See your sessions', url: `${publicUrl}/security` },
    note: 'If that was not you, end the session there and tell the operator.',
  }),
  'payout-details': ({ accountName, hint, at, usableAt }, publicUrl) => ({
    subject: 'Your earnings will be paid elsewhere',
    lines: [
      `The payout details of ${accountName} were changed on ${formatInstant(at)}. Its earnings are now paid to: ${hint}.`,
      `Nothing is paid to it before ${formatInstant(usableAt)}.`,
    ],
    link: { label: 'See the payout details', url: `${publicUrl}/supply/earnings` },
    note: 'Every owner of the account gets this message. If no owner made this change, change it back and tell the operator now.',
  }),
  invitation: ({ accountName, senderName, role, invitationId, days }, publicUrl) => ({
    // The names of accounts are text of customers, which strangers should not read in their list of messages.
    subject: accountName === null ? 'Invitation to open an account' : 'Invitation to join an account',
    lines: [
      accountName === null
        ? `${senderName} invites you to open an account on the Berth server at ${publicUrl}.`
        : `${senderName} invites you to join ${accountName} on the Berth server at ${publicUrl}, as ${role}.`,
    ],
    link: { label: 'See the invitation', url: `${publicUrl}/invitations/${invitationId}` },
    note: `The invitation is valid for ${days} days. If you do not expect it, ignore this message.`,
  }),
}

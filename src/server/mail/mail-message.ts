/** The text of e-mails. Names and labels come from customers: in HTML they are escaped, in headers they are one line. */
import type { MailMessage } from '../../domain/mail.ts'
import { html, type Markup } from '../console/markup.ts'

export interface MailContent {
  readonly subject: string
  readonly text: string
  readonly html: string
  readonly headers: Readonly<Record<string, string>>
}

export const UNSUBSCRIBE_PATH = '/unsubscribe'
export const CONFIRM_PATH = '/confirm-email'

export function composeMail(message: MailMessage, publicUrl: string): MailContent {
  const { accountName, kindLabel, notices, more } = message
  const unsubscribe = `${publicUrl}${UNSUBSCRIBE_PATH}?token=${encodeURIComponent(message.unsubscribeToken)}`
  const total = notices.length + more
  // Titles have names that the customer chose, and a subject is read before anything is trusted.
  const title = total > 1 ? `${kindLabel}: ${total} notifications` : kindLabel
  const moreLine = more > 0 ? `And ${more} more.` : undefined
  const footer = `You receive this because you are a member of ${accountName}.`
  const stop = `Stop e-mails about this (${kindLabel})`
  const body = html`${notices.map(
      (notice) =>
        html`<h2 style="font-size:16px;margin:20px 0 4px">${notice.title}</h2>
          <p style="margin:0">${notice.text}</p>`,
    )}
    ${moreLine === undefined ? undefined : html`<p>${moreLine}</p>`}
    <p style="margin-top:20px"><a href="${publicUrl}">Open the console</a></p>
    <p style="margin-top:28px;color:#5d6b7a;font-size:12px">
      ${footer}<br />
      <a href="${unsubscribe}">${stop}</a>
    </p>`
  return {
    subject: oneLine(`[Berth] ${title} (${accountName})`),
    text: [
      ...notices.flatMap((notice) => [notice.title, notice.text, '']),
      ...(moreLine === undefined ? [] : [moreLine, '']),
      `Open the console: ${publicUrl}`,
      '',
      '-- ',
      footer,
      `${stop}: ${unsubscribe}`,
      '',
    ].join('\n'),
    html: pageOf(body),
    // RFC 8058: mail programs show a button that posts to the link.
    headers: { 'List-Unsubscribe': `<${unsubscribe}>`, 'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click' },
  }
}

/** Goes to an address that nobody has confirmed, so it has no text of a customer. */
export function confirmationMail(token: string, publicUrl: string): MailContent {
  const link = `${publicUrl}${CONFIRM_PATH}?token=${encodeURIComponent(token)}`
  const question = `Someone entered this address to receive notifications from the Berth server at ${publicUrl} by e-mail.`
  const ignore = 'If you do not expect this, ignore the message: you will get no other.'
  return {
    subject: '[Berth] Confirm your e-mail address',
    text: [question, '', `To receive them: ${link}`, '', ignore, ''].join('\n'),
    html: pageOf(
      html`<p>${question}</p>
        <p><a href="${link}">Receive them</a></p>
        <p style="color:#5d6b7a;font-size:12px">${ignore}</p>`,
    ),
    headers: {},
  }
}

export function testMail(publicUrl: string): MailContent {
  const text = `This is a test e-mail from the Berth server at ${publicUrl}. Notifications will be sent the same way.`
  return { subject: '[Berth] Test e-mail', text: `${text}\n`, html: pageOf(html`<p>${text}</p>`), headers: {} }
}

export function pageOf(body: Markup): string {
  return `<!doctype html>\n${
    html`<html lang="en">
      <body style="font-family:sans-serif;color:#16202c;max-width:560px">
        ${body}
      </body>
    </html>`.html
  }\n`
}

const MAX_SUBJECT_CHARS = 200

/** A line break in a label must not start another header. */
export function oneLine(text: string): string {
  return text.replaceAll(/\p{Cc}+/gu, ' ').slice(0, MAX_SUBJECT_CHARS)
}

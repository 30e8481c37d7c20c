/** Sends e-mail over SMTP. Loaded only when a mail server is configured. */
import { createTransport } from 'nodemailer'
import { limits } from '../../base/limits.ts'
import type { Mailer, MailOutcome } from '../../domain/mail.ts'
import { composeMail, confirmationMail, testMail, type MailContent } from './mail-message.ts'
import { writeTemplate } from './template-text.ts'
import { isLoopback } from '../settings.ts'

export interface MailSettings {
  /** `smtp://user:password@host:587`, or `smtps://` for TLS from the first byte. */
  readonly url: string
  /** `Berth <berth@example.com>`, or the address alone. */
  readonly from: string
}

export function openMailer(settings: MailSettings, publicUrl: () => string): Mailer & { close(): void } {
  const url = new URL(settings.url)
  const transport = createTransport({
    url: settings.url,
    // A password goes over the network only encrypted.
    ...(url.username === '' || isLoopback(url.hostname) ? {} : { requireTLS: true }),
    connectionTimeout: limits.mailTimeoutMs,
    greetingTimeout: limits.mailTimeoutMs,
    socketTimeout: limits.mailTimeoutMs,
    dnsTimeout: limits.mailTimeoutMs,
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  const [, domain = 'localhost'] = /@([\w.-]+)>?$/.exec(settings.from) ?? []

  const deliver = async (to: string, content: MailContent, messageId?: string): Promise<MailOutcome> => {
    try {
      const sent = await transport.sendMail({
        from: settings.from,
        // An object, so that an address is never parsed as a list of addresses.
        to: { name: '', address: to },
        subject: content.subject,
        text: content.text,
        html: content.html,
        ...(messageId === undefined ? {} : { messageId: `<${messageId}@${domain}>` }),
        headers: { 'Auto-Submitted': 'auto-generated', ...content.headers },
      })
      return { kind: 'sent', reply: sent.response }
    } catch (error) {
      return outcomeOf(error)
    }
  }
  return {
    from: settings.from,
    server: `${url.hostname}:${url.port === '' ? (url.protocol === 'smtps:' ? 465 : 587) : url.port}`,
    send: (message) => deliver(message.to, composeMail(message, publicUrl()), message.messageId),
    sendTemplate: (to, mail, messageId) => deliver(to, writeTemplate(mail, publicUrl()), messageId),
    sendConfirmation: (to, token) => deliver(to, confirmationMail(token, publicUrl())),
    sendTest: (to) => deliver(to, testMail(publicUrl())),
    close: () => transport.close(),
  }
}

const CLOSING = 421

/** The parts of a nodemailer error that tell a bad message from a bad server. */
function outcomeOf(error: unknown): MailOutcome {
  if (!(error instanceof Error)) return { kind: 'down', error: String(error) }
  const { code, command, responseCode } = error as Error & { code?: string; command?: string; responseCode?: number }
  const text = error.message
  const isAboutMessage = (code === 'EENVELOPE' || code === 'EMESSAGE') && command !== 'MAIL FROM'
  // Connection, login or sender: no message would pass until an operator or the mail server changes something.
  if (!isAboutMessage || responseCode === CLOSING) return { kind: 'down', error: text }
  return { kind: responseCode !== undefined && responseCode < 500 ? 'later' : 'refused', error: text }
}

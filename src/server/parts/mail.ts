/** Opens the mail server of the settings. The mail library is loaded only where one is configured. */
import type { App } from '../../app/app.ts'
import type { Context, Part } from './part.ts'

export interface Mail extends Part {
  readonly app: Pick<App, 'mailer'>
}

/** `ownUrl`: links in e-mails lead there if no public URL is set. */
export async function openMail({ settings }: Context, ownUrl: () => string): Promise<Mail> {
  if (settings.mail === undefined) return { app: {}, close: () => {} }
  const { openMailer } = await import('../mail/mailer.ts')
  const mailer = openMailer(settings.mail, () => settings.publicUrl ?? ownUrl())
  return { app: { mailer }, close: () => mailer.close() }
}

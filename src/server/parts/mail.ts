/** Opens the mail server of the settings. The mail library is loaded only where one is configured. */
import type { App } from '../../app/app.ts'
import type { Settings } from '../settings.ts'

export interface Mail {
  readonly part: Pick<App, 'mailer'>
  /** Links in e-mails lead to the public URL, or to where the server listens. */
  listening(url: string): void
}

export async function openMail(
  settings: Pick<Settings, 'mail' | 'publicUrl'>,
  closing: Array<() => Promise<unknown>>,
): Promise<Mail> {
  let publicUrl = settings.publicUrl
  const listening = (url: string): void => void (publicUrl ??= url)
  if (settings.mail === undefined) return { part: {}, listening }
  const { openMailer } = await import('../mail/mailer.ts')
  const mailer = openMailer(settings.mail, () => publicUrl ?? '')
  closing.push(async () => mailer.close())
  return { part: { mailer }, listening }
}

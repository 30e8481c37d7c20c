/** Not written yet. */
import { Page } from '../ui/page.tsx'

export function SshKeysPage() {
  return <Page title="Ssh-keys">…</Page>
}

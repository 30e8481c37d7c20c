/** Not written yet. */
import { Page } from '../ui/page.tsx'

export function JoinPage() {
  return <Page title="Join">…</Page>
}

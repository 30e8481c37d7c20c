/** Not written yet. */
import { Page } from '../ui/page.tsx'

export function PicturesPage() {
  return <Page title="Pictures">…</Page>
}

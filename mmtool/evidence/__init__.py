"""Evidence pages for auditors: one self-contained HTML file about an operation, a drill or a comparison.

`document` builds the JSON that a page embeds, `page` renders it, `signature` signs it and checks a page.
"""

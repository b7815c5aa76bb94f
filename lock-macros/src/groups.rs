//! The invisible groups in which a `macro_rules!` macro hands on its fragments.
//!
//! The compiler looks through those that a procedural macro gives back: `$sum * 2` would be `1 + 2 * 2`. Tokens that are
//! not taken apart stay as they are, so this is for those that are.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::{Expr, Ident};

use crate::span::generated_at;

/// With parentheses for invisible groups, where what is around would tear their content apart.
pub(crate) fn made_visible(tokens: TokenStream) -> TokenStream {
    if !has_invisible(&tokens) {
        return tokens;
    }
    let mut made = TokenStream::new();
    let mut before: [Option<TokenTree>; 2] = [None, None];
    let mut trees = tokens.into_iter().peekable();
    while let Some(tree) = trees.next() {
        let visible = match &tree {
            TokenTree::Group(group) if !is_for_macro(group, &before) => {
                let is_whole = is_end(before[1].as_ref()) && is_end(trees.peek());
                visible(group, is_whole, trees.peek())
            }
            tree => tree.clone(),
        };
        made.extend([visible]);
        before.rotate_left(1);
        before[1] = Some(tree);
    }
    made
}

/// [`made_visible`] for all of an item that is taken apart, which is all but its body.
pub(crate) fn made_visible_before_body(item: &TokenStream) -> TokenStream {
    let mut trees: Vec<TokenTree> = item.clone().into_iter().collect();
    let last = trees.pop();
    let mut made = made_visible(trees.into_iter().collect());
    match last {
        // The whole item, or its body.
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::None => {
            made.extend(made_visible_before_body(&group.stream()));
        }
        last => made.extend(last),
    }
    made
}

fn has_invisible(tokens: &TokenStream) -> bool {
    tokens.clone().into_iter().any(|tree| match tree {
        TokenTree::Group(group) => {
            group.delimiter() == Delimiter::None || has_invisible(&group.stream())
        }
        _ => false,
    })
}

/// Whether these are the arguments of a macro, which stay as they are.
fn is_for_macro(group: &Group, before: &[Option<TokenTree>; 2]) -> bool {
    let [Some(name @ TokenTree::Ident(_)), Some(bang)] = before else {
        return false;
    };
    group.delimiter() != Delimiter::None
        && is_punct(bang, '!')
        // No keyword, as in `return !(…)`.
        && syn::parse2::<Ident>(name.clone().into()).is_ok()
}

/// Whether an element of a list ends here.
fn is_end(neighbour: Option<&TokenTree>) -> bool {
    neighbour.is_none_or(|tree| is_punct(tree, ',') || is_punct(tree, ';'))
}

fn visible(group: &Group, is_whole: bool, next: Option<&TokenTree>) -> TokenTree {
    let content = made_visible(group.stream());
    let torn = group.delimiter() == Delimiter::None && !is_whole && is_torn(&content, next);
    let (delimiter, span) = if torn {
        (Delimiter::Parenthesis, generated_at(group.span()))
    } else {
        (group.delimiter(), group.span())
    };
    let mut made = Group::new(delimiter, content);
    made.set_span(span);
    made.into()
}

/// Whether the content of an invisible group would not stay one operand, or one type.
fn is_torn(content: &TokenStream, next: Option<&TokenTree>) -> bool {
    let mut trees = content.clone().into_iter();
    if let Some(TokenTree::Ident(word)) = trees.next()
        && (word == "dyn" || word == "impl")
    {
        return trees.any(|tree| is_punct(&tree, '+'));
    }
    match syn::parse2(content.clone()) {
        Ok(Expr::Assign(_) | Expr::Binary(_) | Expr::Cast(_) | Expr::Range(_)) => true,
        // These end where an operator comes, but not at a field, a call or a `?`.
        Ok(Expr::Closure(_) | Expr::Reference(_) | Expr::Unary(_)) => next.is_some_and(|next| {
            let is_list = |group: &Group| group.delimiter() != Delimiter::Brace;
            is_punct(next, '.')
                || is_punct(next, '?')
                || matches!(next, TokenTree::Group(group) if is_list(group))
        }),
        _ => false,
    }
}

pub(crate) fn is_punct(tree: &TokenTree, character: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == character)
}
